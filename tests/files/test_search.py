"""The search of files: what it finds and what it never shows, its bounds, and how it goes on."""

import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from abilities import Abilities, Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files import searcher
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.searcher import SearchRequest, SearchResult
from abilities.helpers.tokens import TokenFile
from tests.files.test_confinement import SECRET, file_becomes_link, swap_names
from tests.support.reading import count_descriptors, write_files
from tests.support.secret_samples import WORD, draw
from tests.support.tier import size
from tests.support.waiting import wait_until

RACES = size("ABILITIES_SEARCH_RACES", quick=50, full=1_000)
MOST_RACES = RACES + 100_000

WRONG = [
    ("", False, "too_short"),
    ("x" * 1_001, False, "too_long"),
    ("a\nb", False, "invalid_format"),
    ("a\r", True, "invalid_format"),
    ("\ud800", False, "invalid_format"),
    *[
        (pattern, True, "invalid_pattern")
        for pattern in (r"(?=a)", r"(a)\1", "(", "a)(b", "[", "*", r"\pL{900}", "(.{900}){900}")
    ],
]

SLOW_PATTERNS = ["(a+)+$", "(a|aa)+$", "(a|b)*a(a|b){12}c", "(x+x+)+y", r"(.*)*\d", "a{0,900}b"]


class Clock:
    """A clock that goes on by half a millisecond whenever somebody looks at it."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.0005
        return self._now


async def search(
    settings: Settings,
    text: str,
    *,
    is_regex: bool = False,
    glob: str = "**/*",
    context: int = 0,
    limit: int = 100,
    after: tuple[str, int] = ("", 0),
    is_whole: bool = False,
) -> SearchResult:
    request = SearchRequest(text, is_regex, Glob(glob), context, limit, after, is_whole)
    async with Abilities.open(settings) as abilities:
        return await abilities.context.searcher.search(request)


async def search_in_calls(
    settings: Settings, text: str, *, is_regex: bool = True, limit: int = 100
) -> AsyncIterator[SearchResult]:
    after: tuple[str, int] | None = ("", 0)

    while after is not None:
        result = await search(settings, text, is_regex=is_regex, after=after, limit=limit)
        assert result.after is None or result.after > after
        yield result
        after = result.after


def list_lines(result: SearchResult) -> list[int]:
    return [line for hit in result.hits for line in hit.lines]


def write(root: Path, **contents: str) -> None:
    write_files(root, {f"{name}.txt": content for name, content in contents.items()})


@pytest.mark.parametrize(("text", "is_regex", "reason"), WRONG)
async def test_what_cannot_be_searched_for_is_refused(
    text: str, is_regex: bool, reason: str, roots: Settings
) -> None:
    with pytest.raises(Refused) as caught:
        await search(roots, text, is_regex=is_regex)

    assert (caught.value.reason, caught.value.field) == (reason, "search")
    assert caught.value.message


async def test_a_hit_is_a_block_that_reads_as_it_is_shown(roots: Settings) -> None:
    lines = [f"line {n}\n" for n in range(1, 21)]
    write(roots.workspace_dir, a="".join(lines), b="nothing")

    result = await search(roots, r"line (3|6|15)$", is_regex=True, context=1)

    assert [(hit.path, hit.lines, hit.last_line) for hit in result.hits] == [
        ("a.txt#L2-L7", (3, 6), 7),
        ("a.txt#L14-L16", (15,), 16),
    ]
    assert result.hits[0].text == "".join(lines[1:7])
    assert (result.searched, result.skipped, result.after) == (2, 0, None)


@pytest.mark.parametrize("redact", [True, False])
@pytest.mark.parametrize("is_regex", [True, False])
@pytest.mark.parametrize(
    "text", ["tea", "tee", "é", "世界", "a.b", "[x]", "tea|té", "_", "(?i:TEA)"]
)
async def test_a_search_for_whole_words_finds_them_alone(
    text: str, is_regex: bool, redact: bool, roots: Settings
) -> None:
    words = ["tea", "té", "é", "世界", "a.b", "axb", "[x]", "x", "_", "1", "TEA", "tea|té"]
    beside = ["", " ", "_", "é", "1", "世", "-", "[", "\r"]
    lines = [f"{before}{word}{after}" for word in words for before in beside for after in beside]
    lines += ["teatea tea", "teatea", "tea_ _tea"]
    raw = "\n".join(lines).replace("\r\n", "\n\n")
    (roots.workspace_dir / "a.txt").write_bytes(raw.encode())
    pattern = text if is_regex else re.escape(text)
    wanted = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)")

    settings = roots.model_copy(update={"redact": redact})
    result = await search(settings, text, is_regex=is_regex, is_whole=True, limit=1_000)

    expected = [n for n, line in enumerate(raw.split("\n"), 1) if wanted.search(line)]
    assert list_lines(result) == expected
    assert bool(expected) == (text != "tee" and (is_regex or text != "(?i:TEA)"))


async def test_a_search_enters_skipped_folders_only_by_their_names(roots: Settings) -> None:
    write_files(roots.workspace_dir, {"a.txt": "tea", "node_modules/b.txt": "tea"})

    found = await search(roots, "tea")
    named = await search(roots, "tea", glob="node_modules/*")

    assert ([hit.position for hit in found.hits], found.searched) == (["a.txt"], 1)
    assert [hit.position for hit in named.hits] == ["node_modules/b.txt"]


async def test_a_line_matches_without_its_line_end(roots: Settings) -> None:
    write(roots.workspace_dir, b="no line follows this one\n")
    (roots.workspace_dir / "a.txt").write_bytes(b"one\r\ntwo\r\n\r\nthree\nfour")

    async def find(pattern: str) -> list[int]:
        return list_lines(await search(roots, pattern, is_regex=True))

    assert await find("e$") == [1, 4, 1]
    assert await find("^$") == [3]
    assert await find("four$") == [5]
    assert await find(r"o\s+t") == await find(r"one[^z]+") == []


async def test_only_files_that_the_glob_matches_are_searched(roots: Settings) -> None:
    write(roots.workspace_dir, a="tea", b="tea", ab="tea")

    result = await search(roots, "tea", glob="a*.txt")

    assert [hit.path for hit in result.hits] == ["a.txt#L1-L1", "ab.txt#L1-L1"]
    assert result.searched == 2


async def test_the_agents_file_hides_that_of_the_workspace(roots: Settings) -> None:
    write(roots.workspace_dir, both="tea of the workspace", own="tea")
    write(roots.agent_dir, both="coffee", mine="tea")

    result = await search(roots, "tea")

    assert [(hit.path, hit.source) for hit in result.hits] == [
        ("mine.txt#L1-L1", "agent"),
        ("own.txt#L1-L1", "workspace"),
    ]


async def test_what_is_not_shared_is_never_found(roots: Settings) -> None:
    root, outside = roots.workspace_dir, roots.workspace_dir.parent / "outside"
    secrets = (".git/config", ".ssh/config", ".env", "id_rsa", "x.pem", "fine.txt")
    write_files(root, dict.fromkeys(secrets, "tea"))
    write_files(outside, {"config": "tea"})
    (root / "link").symlink_to(outside / "config")
    (root / "folder").symlink_to(outside)
    (root / "deny").symlink_to(".env")
    os.mkfifo(root / "fifo")
    (root / "inside").symlink_to("fine.txt")

    for pattern in ("**/*", "**/.*", "**/.*/**", ".env"):
        result = await search(roots, "tea", glob=pattern)
        found = [hit.position for hit in result.hits]
        assert found == (["fine.txt", "inside"] if pattern == "**/*" else []), pattern
        assert result.skipped == 0, "nobody is told of them"


async def test_own_files_are_never_found(roots: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    state = roots.workspace_dir / "state"
    write_files(state, {"settings.toml": "deny = []\n"})
    monkeypatch.setenv("ABILITIES_CONFIG", str(state / "settings.toml"))
    own = roots.model_copy(
        update={"store_url": f"sqlite:///{state}/memory.db", "tokens_file": state / "tokens.json"}
    )
    TokenFile(own.tokens_file).add("default", "read")
    os.link(state / "tokens.json", roots.workspace_dir / "copy.txt")
    write(roots.workspace_dir, a="token default deny")

    for text in ("deny", "default", "token"):
        result = await search(own, text)
        assert [hit.path for hit in result.hits] == ["a.txt#L1-L1"]


async def test_a_secret_is_neither_found_nor_shown(roots: Settings) -> None:
    token = "ghp_" + draw(Random(1), WORD, 36)
    write(roots.workspace_dir, a=f"key = '{token}'\nuse(key)\n")

    for text, is_regex in ((token, False), (token[:12], False), ("ghp_", True), ("key = .g", True)):
        assert (await search(roots, text, is_regex=is_regex)).hits == [], text

    result = await search(roots, "use", context=1)
    marked = await search(roots, "key = '[secret: GitHub")
    open_settings = roots.model_copy(update={"redact": False})

    assert result.hits[0].text == "key = '[secret: GitHub token]'\nuse(key)\n"
    assert marked.hits[0].lines == (1,)
    assert (await search(open_settings, token)).hits[0].text == f"key = '{token}'\n"


async def test_a_long_line_is_cut_around_its_match(roots: Settings) -> None:
    write(roots.workspace_dir, a="first\n" + "ä" * 9_000 + "NEEDLE" + "ö" * 9_000 + "\nlast\n")

    (hit,) = (await search(roots, "NEEDLE", context=1)).hits

    assert (hit.path, hit.is_cut, hit.lines) == ("a.txt#L1-L3", True, (2,))
    assert hit.text == "ä" * 500 + "NEEDLE" + "ö" * (2_000 - 506)


async def test_a_block_that_would_be_too_long_is_several(roots: Settings) -> None:
    lines = [f"line {n:03}\n" for n in range(1_000)]
    write(roots.workspace_dir, a="".join(lines))

    result = await search(roots, "line", context=3)

    assert "".join(hit.text for hit in result.hits) == "".join(lines)
    assert list_lines(result) == list(range(1, 1_001))
    assert not any(hit.is_cut for hit in result.hits)
    assert len(result.hits) == 5


async def test_what_cannot_be_searched_is_counted(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher, "MAX_FILE_BYTES", 100)
    files = {"fine.txt": "tea", "large.txt": "tea" * 50, "binary": b"tea\0"}
    write_files(roots.workspace_dir, files)

    result = await search(roots, "tea")

    assert [hit.position for hit in result.hits] == ["fine.txt"]
    assert (result.searched, result.skipped, result.after) == (1, 2, None)


@pytest.mark.parametrize("is_regex", [True, False])
@pytest.mark.parametrize("limit", ["SECONDS", "MAX_BYTES"])
async def test_a_search_that_takes_too_much_goes_on_in_the_next_call(
    limit: str, is_regex: bool, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher, limit, 0)
    files = ("a", "b", "x/a", "x/b", "x/y/a", "x/y/b", "x/y/z", "x/z", "z")
    write_files(roots.workspace_dir, dict.fromkeys(files, "tea\n" * 2))

    results = [r async for r in search_in_calls(roots, "tea", is_regex=is_regex)]

    assert [hit.path for result in results for hit in result.hits] == [f"{p}#L1-L2" for p in files]
    assert all(result.searched <= 1 for result in results)
    assert [result.is_over_time for result in results] == [True] * (len(results) - 1) + [False]
    assert len(results) >= len(files)


async def test_time_that_ends_within_a_file_loses_no_hit(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(roots.workspace_dir, a="tea\n" * 5_000, b="tea\n")
    monkeypatch.setattr(searcher, "SECONDS", 0)
    monkeypatch.setattr(searcher, "time", Clock())

    results = [result async for result in search_in_calls(roots, "^tea", limit=10_000)]

    hits = [hit for result in results for hit in result.hits]
    lines = [(hit.position, line) for hit in hits for line in hit.lines]
    assert lines == [*(("a.txt", n) for n in range(1, 5_001)), ("b.txt", 1)]
    assert not any(result.skipped for result in results)
    assert len(results) > 3


async def test_a_file_that_alone_takes_too_long_is_skipped(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(roots.workspace_dir, a="coffee\n" * 20, b="tea\n")
    monkeypatch.setattr(searcher, "SECONDS", -1)
    monkeypatch.setattr(searcher, "FIRST_FILE_SECONDS", -1)

    first = await search(roots, "^tea", is_regex=True)
    assert (first.hits, first.searched, first.skipped) == ([], 1, 1)
    assert first.after == ("b.txt", 0)


async def test_a_search_goes_on_although_its_file_is_gone(roots: Settings) -> None:
    write(roots.workspace_dir, a="tea\n", b="tea\n", c="tea\n")
    first = await search(roots, "tea", limit=2)
    (roots.workspace_dir / "b.txt").unlink()

    assert first.after == ("b.txt", 1)
    assert not first.is_over_time

    second = await search(roots, "tea", limit=2, after=("b.txt", 1))

    assert [hit.path for hit in second.hits] == ["c.txt#L1-L1"]
    assert second.after is None


@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
async def test_patterns_made_to_be_slow_are_not(pattern: str, roots: Settings) -> None:
    lines = ("a" * 30 + "!\n") * 9_000
    write(roots.workspace_dir, a="a" * 200_000, b="ab" * 100_000 + "\n", c=lines)
    began = time.process_time()

    result = await search(roots, pattern, is_regex=True, glob="*.txt")

    assert result.searched + result.skipped > 0
    assert time.process_time() - began < 10, "an engine that backtracks would take ages"


async def test_a_long_line_is_searched_as_far_as_a_pattern_is_cheap(
    roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher, "_MAX_PIECE", 100)
    write(roots.workspace_dir, a="x" * 90 + "tea\n" + "x" * 110 + "tea\n" + "tea\n" * 60)

    result = await search(roots, "t[e]a", is_regex=True)

    assert list_lines(result) == [1, *range(3, 63)]


async def test_a_root_that_is_gone_is_unavailable(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        roots.workspace_dir.rmdir()

        with pytest.raises(Refused) as caught:
            await abilities.context.searcher.search(
                SearchRequest("tea", False, Glob("**/*"), 0, 10)
            )

    assert caught.value.reason == "root_unavailable"


async def test_searching_leaves_no_descriptor_behind(roots: Settings) -> None:
    write_files(roots.workspace_dir, dict.fromkeys(("a/f", "b/f", "c/f"), "tea\n"))
    before = count_descriptors()

    for limit in (1, 2, 100):
        await search(roots, "tea", limit=limit)

    await wait_until(lambda: count_descriptors() <= before)


async def test_no_race_ever_finds_what_is_outside(roots: Settings) -> None:
    root, outside = roots.workspace_dir, roots.workspace_dir.parent / "outside"
    write_files(outside, {"secret.txt": SECRET})
    race = file_becomes_link(root, outside)
    request = SearchRequest("i", False, Glob("**/*"), 0, 10)
    counts = {"inside": 0, "nothing": 0}

    async with Abilities.open(roots) as abilities:
        with swap_names(race.name, race.other):
            while sum(counts.values()) < RACES or not all(counts.values()):
                result = await abilities.context.searcher.search(request)
                for hit in result.hits:
                    assert hit.text == "inside"
                counts["inside" if result.hits else "nothing"] += 1
                assert sum(counts.values()) < MOST_RACES, counts
