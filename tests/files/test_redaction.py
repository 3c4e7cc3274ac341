"""Secrets in contents: found, replaced by marks, and never split, whatever part is read.

Figure 15: at least 95 of 100 samples, and none of 1,000 ordinary files.
"""

import asyncio
import os
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings, render
from abilities.helpers.files.redaction import REACH, SHAPES, Secret, find_secrets, redact
from abilities.helpers.text import UTF_8, WHOLE, Range, replace_markers
from tests.support.measurements import reached
from tests.support.reading import OpenFile, follow, list_outcomes, write_files
from tests.support.secret_samples import BASE64, Sample, draw, draw_block, list_samples
from tests.support.tier import size

EXAMPLES = size("ABILITIES_EXAMPLES", quick=10, full=60)
some = hypothesis_settings(max_examples=EXAMPLES)

SEEDS = size("ABILITIES_SECRET_SEEDS", quick=2, full=4)
ORDINARY_FILES = size("ABILITIES_ORDINARY_FILES", quick=200, full=1_000)
SAMPLES = list_samples(Random(20))
FILLERS = [
    "",
    "käse und 世界 👩‍👩‍👧‍👦\r\n",
    "an ordinary line\n" * 40,
    "e" + "\u0301" * 40,
    "\ud7ff\ue000 [secret: nothing] \x01",
    "far between\n" * 1_500,
    "0123456789abcdef" * 1_100,  # a line that is longer than the reach
]


class Composed(NamedTuple):
    """A text of known parts, where its secrets are, and how a reader is to see it."""

    text: str
    secrets: list[Secret]
    redacted: str


def compose(parts: Iterable[str | Sample]) -> Composed:
    """Put fillers and samples into one text, each on lines of its own."""
    text = redacted = ""
    secrets: list[Secret] = []

    for part in parts:
        if isinstance(part, Sample):
            start = len(text) + len(part.before)
            secrets.append(Secret(start, start + len(part.secret), part.kind))
            text += part.text + "\n"
            redacted += part.redacted + "\n"
        else:
            text += part + "\n"
            redacted += part + "\n"

    return Composed(text, secrets, redacted)


composed = st.lists(
    st.one_of(st.sampled_from(FILLERS), st.sampled_from(SAMPLES)), min_size=1, max_size=6
).map(compose)
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])


def redacted_file(raw: bytes) -> OpenFile:
    return OpenFile(raw, redacts=True)


def test_at_least_95_of_100_secrets_are_replaced() -> None:
    samples = [sample for seed in range(SEEDS) for sample in list_samples(Random(seed))]
    hidden = 0

    for sample in samples:
        secrets = find_secrets(sample.text)
        hidden += redact(sample.text, secrets, UTF_8)[0] == sample.redacted

    assert {sample.kind for sample in samples} == {kind for kind, _ in SHAPES}
    assert len(samples) > 100
    assert hidden >= 0.95 * len(samples)

    reached(15, f"{hidden} of {len(samples)} secrets replaced")


def list_ordinary_files() -> Iterator[Path]:
    """Yield texts that people wrote: Python's library, then the packages beside it."""
    paths = sysconfig.get_paths()
    for root in (paths["stdlib"], paths["purelib"]):
        for folder, folders, names in os.walk(root):
            # Tests hold keys on purpose.
            left_out = {"test", "tests", "site-packages", "dist-packages", "__pycache__"}
            folders[:] = sorted(set(folders) - left_out)

            for name in sorted(names):
                if name.endswith((".py", ".txt", ".md", ".json", ".rst")):
                    yield Path(folder, name)


def test_ordinary_files_are_not_touched() -> None:
    files = list(islice(list_ordinary_files(), ORDINARY_FILES))

    touched = [path for path in files if find_secrets(path.read_text(errors="replace"))]

    assert len(files) == ORDINARY_FILES
    assert touched == []

    reached(15, f"{len(touched)} of {len(files)} ordinary files touched")


BEGIN, END = ("-" * 5 + word for word in ("BEGIN ", "END "))
ORDINARY = {
    "checksum": "sha512-" + draw(Random(1), BASE64, 86) + "==",
    "lock file": f'"hash": "sha256:{draw(Random(2), "0123456789abcdef", 64)}"',
    "commit": f"commit {draw(Random(3), '0123456789abcdef', 40)}",
    "UUID": "123e4567-e89b-12d3-a456-426614174000",
    "image": "data:image/png;base64," + draw(Random(4), BASE64, 50_000),
    "minified": "function(e,t){return sk-e.task_live?a:b}" * 400,
    "certificate": f"{BEGIN}CERTIFICATE-----\n" + draw(Random(5), BASE64, 64) * 9,
    "public key": f"{BEGIN}PUBLIC KEY-----\n" + draw(Random(6), BASE64, 64) * 9,
    "ssh public key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5" + draw(Random(7), BASE64, 44) + " me",
    "code about keys": f'if a == "{BEGIN}PRIVATE KEY-----":\n    b = "{END}PRIVATE KEY-----"',
    "empty block": f"{BEGIN}RSA PRIVATE KEY-----\n...\n{END}RSA PRIVATE KEY-----",
    "placeholder": "ghp_" + "x" * 36,
    "ellipsis": "sk-... or sk-ant-api03-..., glpat-<your token>",
    "AWS example": "AKIA" + "IOSFODNN7EXAMPLE",
    "AWS example secret": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
    "alphabet": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "URL": "https://example.com:8080/a@b and git@host:path",
    "URL with a word": "postgresql://user:password@localhost/db",
    "URL with a variable": "postgresql://user:$DB_PASSWORD1@localhost/db, //u:${A1}@h, //u:{A1a}@h",
    "stripe public key": "pk_live_" + draw(Random(8), BASE64[:62], 24),
    "word that begins alike": "task-" + draw(Random(9), BASE64[:62], 40),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_what_only_looks_like_a_secret_is_shown(name: str) -> None:
    assert find_secrets(ORDINARY[name]) == []


WORDS_FOR_A_PASSWORD = (
    "password MyPassword1 12345678 postgres CHANGEME $PASSWORD1a %DB_PASSa% *** abcde your-Pass1x"
)
PASSWORDS = "tr0ub4dor Tr-oubador a%40B!c=9 correct-horse-battery"


def test_a_password_in_a_url_is_told_from_a_word_for_one() -> None:
    for words, kinds in ((WORDS_FOR_A_PASSWORD, []), (PASSWORDS, ["password"])):
        for word in words.split():
            secrets = find_secrets(f"postgresql://app:{word}@db/main")
            assert [secret.kind for secret in secrets] == kinds, word


def test_a_kind_fits_into_the_smallest_share_of_a_reply() -> None:
    """The bound of a reply relies on that: a mark is never cut."""
    assert max(len(f"[secret: {kind}]") for kind, _ in SHAPES) <= 40


@some
@given(composed, encodings, st.integers(300, 30_000))
def test_pieces_join_to_the_redacted_text(whole: Composed, encoding: str, chars: int) -> None:
    with redacted_file(whole.text.encode(encoding)) as file:
        pieces = list(file.follow(WHOLE, chars))

    assert "".join(piece.text for piece in pieces) == whole.redacted
    assert sum(piece.count_marks(len(piece.text)) for piece in pieces) == len(whole.secrets)


few_parts = st.lists(st.sampled_from([*SAMPLES, "", "a\u0301\n", "世" * 9]), min_size=1, max_size=3)


@some
@given(few_parts, st.integers(1, 60))
def test_small_pieces_split_no_mark(parts: list[str | Sample], chars: int) -> None:
    whole = compose(parts)

    with redacted_file(whole.text.encode()) as file:
        pieces = list(file.follow(WHOLE, chars))

    assert "".join(piece.text for piece in pieces) == whole.redacted
    for piece in pieces:
        assert len(piece.text) <= max(chars, 40)


@some
@given(whole=composed, encoding=encodings, data=st.data(), chars=st.integers(300, 100_000))
def test_a_part_begins_and_ends_with_marks_if_it_lies_in_secrets(
    whole: Composed, encoding: str, data: st.DataObject, chars: int
) -> None:
    start = data.draw(st.integers(0, len(whole.text)))
    end = data.draw(st.integers(start, len(whole.text)))
    if whole.secrets:
        secret = data.draw(st.sampled_from([*whole.secrets, Secret(start, end, "none")]))
        start = data.draw(st.integers(secret.start, secret.end))
        end = data.draw(st.integers(start, len(whole.text)))
    first, last = (len(whole.text[:place].encode(encoding)) for place in (start, end))

    with redacted_file(whole.text.encode(encoding)) as file:
        pieces = list(file.follow(Range(start=first, end=last), chars))

    assert "".join(piece.text for piece in pieces) == show_part(whole, start, end)


def show_part(whole: Composed, start: int, end: int) -> str:
    """Return how a reader sees a part: a mark for each secret that it has a character of."""
    shown, position = "", start
    for secret in whole.secrets:
        if max(secret.start, start) < min(secret.end, end):
            shown += whole.text[position : secret.start] + f"[secret: {secret.kind}]"
            position = min(secret.end, end)

    return shown + whole.text[position:end]


some_bytes = st.one_of(st.binary(max_size=9), st.sampled_from([s.text.encode() for s in SAMPLES]))


@some
@given(st.lists(some_bytes))
def test_undecodable_bytes_and_secrets_together_lose_no_byte(raw: list[bytes]) -> None:
    joined = b"\n".join(raw)
    for binary_or_mark in (b"\0", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"):
        joined = joined.replace(binary_or_mark, b"")

    with redacted_file(joined) as file:
        pieces = list(file.follow(WHOLE, 500))
        whole = file.read(WHOLE, 100_000)

    assert "".join(replace_markers(piece.text) for piece in pieces) == replace_markers(whole.text)
    assert whole.measure(len(whole.text)) == len(joined)
    assert sum(piece.measure(len(piece.text)) for piece in pieces) == len(joined)


def test_a_key_block_is_a_secret_up_to_16_kib() -> None:
    text = f"{BEGIN}PRIVATE KEY-----\n" + (draw(Random(3), BASE64, 64) + "\n") * 600

    with redacted_file(text.encode()) as file:
        whole = file.read(WHOLE, 100_000)
        late = file.read(Range(start=REACH + 100), 100_000)
        pieces = list(file.follow(WHOLE, 5_000))

    assert whole.text == "[secret: private key]" + text[REACH:]
    assert late.text == text[REACH + 100 :]
    assert "".join(piece.text for piece in pieces) == whole.text


def test_a_key_block_that_ends_with_its_file_is_a_secret() -> None:
    block = draw_block(Random(3), "OPENSSH ", 12)

    for length in range(block.index("\n") + 45, len(block), 50):
        assert [secret.start for secret in find_secrets(block[:length])] == [0], length


def test_the_time_is_bounded_by_what_was_found_to_be_costly() -> None:
    """Beginnings of secrets, again and again: a backtracking engine would not come back."""
    for part in ("eyJ", "://a:", f"{BEGIN}PRIVATE KEY-----\n", "sk-", "ghp_", "A" * 40 + "\n"):
        assert find_secrets(part * (100_000 // len(part))) == [] or part == "ghp_"


@pytest.mark.requirement("R5.4.2")
@hypothesis_settings(max_examples=max(EXAMPLES // 2, 10))
@given(
    files=st.lists(composed, min_size=1, max_size=5),
    chars=st.sampled_from([500, 4_001, 20_000, 100_000]),
)
def test_following_next_request_returns_the_redacted_files(
    tmp_path_factory: pytest.TempPathFactory, files: list[Composed], chars: int
) -> None:
    asyncio.run(_follow_next_requests(tmp_path_factory.mktemp("files"), files, chars))


async def _follow_next_requests(base: Path, files: list[Composed], chars: int) -> None:
    contents = {f"{n}.txt": "" for n in range(len(files))}
    counts = dict.fromkeys(contents, 0)
    write_files(base, {f"{n}.txt": whole.text for n, whole in enumerate(files)})
    settings = Settings(workspace_dir=base, agent_dir=base, max_response_bytes=40_000)
    request = {"paths": list(contents), "max_chars_per_file": chars}

    async with Abilities.open(settings) as abilities:
        async for payload in follow(abilities, "file_read_bulk", request):
            assert len(render(payload).encode()) <= 40_000

            for data in (record["data"] for record in payload["results"] if record["success"]):
                contents[data["path"]] += data["content"]
                counts[data["path"]] += data.get("redacted", 0)

    assert list(contents.values()) == [whole.redacted for whole in files]
    assert list(counts.values()) == [len(whole.secrets) for whole in files]


async def test_memories_are_not_redacted(roots: Settings) -> None:
    memory = {"key": "k", "content": SAMPLES[0].text.strip(), "type": "core"}

    async with Abilities.open(roots) as abilities:
        await abilities.call("store_memory", memory)
        targets = [{"type": "stored", "key": "k"}]
        payload = await abilities.call("memory_read_bulk", {"targets": targets})

    assert list_outcomes(payload) == [memory["content"]]
