"""The mirror: files and memories that follow each other, on each kind of store."""

import asyncio
import errno
import os
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abilities.declarations.limits import MAX_KEY_CHARS
from abilities.declarations.memory import LinkInput, is_key
from abilities.helpers.memory.helper import Outcome, Write, Writer
from abilities.helpers.store.mending import make_key
from abilities.helpers.store.model import LinkRow, Row, StoredMemory, dump_sorted_json
from abilities.mirror import notes, syncing
from abilities.mirror.folder import Folder, Unusable, fold, is_conflict, name_file
from abilities.mirror.syncing import Mirror, Report
from tests.support.places import FilePlace, StorePlace
from tests.support.secret_samples import list_samples
from tests.support.tier import size

SAME = ("namespace", "id", "created_at", "updated_at", "accessed_at", "access_count", "version")
"""Fields of an export that two stores with equal memories need not share."""


def mirror(place: StorePlace, folder: Path, **options: Any) -> Report:
    """Mirror a folder once."""

    async def run() -> Report:
        with Folder(folder.resolve(), place.url).open() as opened:
            async with place.open() as store:
                return await Mirror(opened, store, "default", **options).run()

    return asyncio.run(run())


def attempt(place: StorePlace, *writes: Write) -> list[Outcome]:
    """Change memories as an agent does."""

    async def run() -> list[Outcome]:
        async with place.open() as store:
            return await Writer("default", store, "test").remember(writes, atomic=False)

    return asyncio.run(run())


def change(place: StorePlace, *writes: Write) -> None:
    assert not [made for made in attempt(place, *writes) if isinstance(made, Exception)]


def store(key: str, content: str, **fields: Any) -> Write:
    return Write("store", {"key": key, "content": content, "type": "core", **fields})


def read_store(place: StorePlace) -> dict[str, dict[str, Any]]:
    """Return what a store says of the memories that are not archived."""
    memories = place.read_memories()
    return {
        key: {name: value for name, value in memory.items() if name not in SAME}
        for key, memory in memories.items()
        if not memory.get("archived")
    }


def read_files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.md"))
        if ".git" not in path.parts
    }


def test_each_side_follows_the_other(place: StorePlace, folder: Path) -> None:
    links = [{"key": "shop", "link_weight": 0.8, "type": "sold in", "term": "cup"}]
    change(place, store("tea/green", "Sencha.\n", tags=["a b"], importance="high"))
    change(place, store("shop", "In Rome."))
    done = place.run(
        "call", "update_memory", f'{{"key": "tea/green", "links": {links}}}'.replace("'", '"')
    )
    assert done.exit_code == 0

    assert mirror(place, folder).counts == {"written": 2}
    file = folder / "tea/green.md"
    assert file.read_text() == (
        "---\nkey: tea/green\ntype: core\nimportance: high\n"
        'tags: ["a b"]\nlinks: [{"key": "shop", "link_weight": 0.8, "type": "sold in", '
        '"term": "cup"}]\n---\n\nSencha.\n\n'
    )

    before = os.stat(file)
    assert not mirror(place, folder).counts
    assert os.stat(file).st_ino == before.st_ino

    file.write_text(file.read_text().replace("Sencha.", "Gyokuro.").replace("high", "low"))
    (folder / "shop.md").write_text("In Oslo.")
    assert mirror(place, folder).counts == {"stored": 2}
    memories = read_store(place)
    assert (memories["tea/green"]["content"], memories["shop"]["content"]) == (
        "Gyokuro.\n",
        "In Oslo.",
    )
    assert memories["tea/green"]["importance"] == "low"
    assert memories["tea/green"]["links"] == links

    file.write_text("---\nkey: tea/green\n---\n\nBancha.\n")
    mirror(place, folder)
    assert "tags" not in read_store(place)["tea/green"]
    assert "links" not in read_store(place)["tea/green"]


def test_an_edit_behind_the_store_stays_beside_it(place: StorePlace, folder: Path) -> None:
    change(place, store("a", "one"))
    mirror(place, folder)
    edit = (folder / "a.md").read_bytes() + b"mine\n"

    for content in ("two", "three"):
        (folder / "a.md").write_bytes(edit)
        change(place, store("a", content))
        done = place.run("mirror", folder)
        assert done.exit_code == 1 and "Both sides changed" in done.stderr

    # The same text is kept once, and shown until it is gone.
    files = read_files(folder)
    assert files.keys() == {"a.md", "a.conflict.md"}
    assert files["a.conflict.md"] == edit and b"three" in files["a.md"]
    assert place.run("mirror", folder).exit_code == 1
    (folder / "a.conflict.md").unlink()
    assert place.run("mirror", folder).exit_code == 0
    assert read_store(place).keys() == {"a"}


def test_a_check_changes_nothing(place: StorePlace, folder: Path) -> None:
    change(place, store("a", "one"))
    (folder / "b.md").write_text("two\n")

    done = place.run("mirror", folder, "--check")
    assert (done.exit_code, done.stderr) == (
        1,
        "a.md: would be written\nb.md: would be stored\nWould mirror: 1 stored, 1 written.\n",
    )
    assert read_files(folder).keys() == {"b.md"} and read_store(place).keys() == {"a"}

    assert place.run("mirror", folder).exit_code == 0
    assert place.run("mirror", folder, "--check").exit_code == 0


def test_a_missing_file_archives_its_memory_only_on_request(
    place: StorePlace, folder: Path
) -> None:
    change(place, *(store(f"k{number}", "text") for number in range(20)))
    mirror(place, folder)

    (folder / "k0.md").unlink()
    assert mirror(place, folder).counts == {"written": 1}

    for number in range(3):
        (folder / f"k{number}.md").unlink()
    report = mirror(place, folder, deletes=True)
    assert "3 of 20 files are gone" in report.problems[0][1]
    assert len(read_store(place)) == 20

    (folder / "k0.md").write_text("---\nkey: k0\n---\n\ntext\n")
    assert mirror(place, folder, deletes=True).counts == {"archived": 2}
    assert len(read_store(place)) == 18


def test_a_file_goes_with_its_memory_but_not_with_its_store(
    place: StorePlace, folder: Path, tmp_path: Path
) -> None:
    change(place, store("a", "one"), store("b", "two"), store("c", "three"), store("d/e", "four"))
    mirror(place, folder)

    change(place, Write("archive", {"key": "a"}), Write("delete", {"key": "b"}))
    change(place, Write("purge", {"key": "d/e"}))
    assert mirror(place, folder).counts == {"removed": 3}
    assert read_files(folder).keys() == {"c.md"} and not (folder / "d").exists()

    # The state of one store says nothing of another one, even under the same name.
    (tmp_path / "other").mkdir()
    other = FilePlace(tmp_path / "other/m.db")
    change(other, *(store("x", str(number)) for number in range(9)))
    state = next((folder / ".abilities").glob("*.json"))

    async def run() -> Report:
        with Folder(folder.resolve(), place.url).open() as opened:
            assert opened.load_state().entries and state.exists()
            async with other.open() as opened_store:
                return await Mirror(opened, opened_store, "default").run()

    assert asyncio.run(run()).counts == {"stored": 1, "written": 1}
    assert read_store(other).keys() == {"c", "x"}


def test_a_rename_on_either_side_keeps_the_memory(place: StorePlace, folder: Path) -> None:
    change(place, store("old", "text"), store("from", "see", links=[]))
    mirror(place, folder)
    (folder / "from.md").write_text("---\nkey: from\nplace: here\n---\n\nsee [[old]]\n")
    mirror(place, folder)
    first = place.read_memories()["old"]["id"]

    # The link of another memory follows, in its file too.
    change(place, Write("update", {"key": "old", "to": "new"}))
    change(place, Write("update", {"key": "from", "to": "whence"}))
    mirror(place, folder)
    files = read_files(folder)
    assert files.keys() == {"new.md", "whence.md"}
    assert b"place: here" in files["whence.md"] and b'"key": "new"' in files["whence.md"]

    (folder / "new.md").write_text("---\nkey: newest\n---\n\ntext\n")
    mirror(place, folder)
    assert place.read_memories()["newest"]["id"] == first
    assert len(place.read_memories()) == 2 and len(read_files(folder)) == 2
    assert mirror(place, folder).counts == {"written": 1}
    assert b'"key": "newest"' in read_files(folder)["whence.md"]

    (folder / "sub").mkdir()
    (folder / "new.md").rename(folder / "sub/any.md")
    assert not mirror(place, folder, deletes=True).counts


def test_links_in_a_text_are_links_of_the_memory(file_place: FilePlace, folder: Path) -> None:
    (folder / "people").mkdir()
    (folder / "people/Ada.md").write_text("Ada.\n")
    file = folder / "note.md"
    file.write_text("[[Ada]] [[people/Ada#x|her]] [[Tea shop]] `[[no]]` ![[no.png]]\n")

    mirror(file_place, folder)
    kept = file.read_bytes()
    links = read_store(file_place)["note"]["links"]
    assert {(link["key"], link["type"]) for link in links} == {
        ("people/Ada", "mentions"),
        ("Tea shop", "mentions"),
    }
    assert file.read_bytes() == kept

    file.write_text("[[Ada]]\n")
    mirror(file_place, folder)
    assert [link["key"] for link in read_store(file_place)["note"]["links"]] == ["people/Ada"]

    change(file_place, store("agent", "Ask [[Ada]]."))
    mirror(file_place, folder)
    assert [link["key"] for link in read_store(file_place)["agent"]["links"]] == ["people/Ada"]
    change(file_place, store("agent", "Ask nobody."))
    mirror(file_place, folder)
    assert "links" not in read_store(file_place)["agent"]
    assert "Ada" not in (folder / "agent.md").read_text()


FOREIGN = b"""\xef\xbb\xbf---
title: Coffee Brewing
type: note
permalink: coffee-brewing   # ours
tags:
- coffee
- "how: to"
cssclasses: {a: [1, 2]}
importance: high
---

# Coffee Brewing

- [method] Pour over #brewing
- relates_to [[Tea]]
"""


def test_notes_of_others_come_as_they_are(file_place: FilePlace, folder: Path) -> None:
    (folder / "Coffee Brewing.md").write_bytes(FOREIGN)
    (folder / "plain.MD").write_bytes("Pläin\r\nlines".encode())
    (folder / "empty.md").write_bytes(b"")
    (folder / "latin.md").write_bytes(b"\xe4")
    (folder / "odd.md").write_bytes(b"---\nmetadata:\n  - a\n  what is\n---\nx")
    (folder / "merge.md").write_bytes(b"a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> main\n")

    report = mirror(file_place, folder)
    assert {path for path, _ in report.problems} == {
        "empty.md", "latin.md", "odd.md", "merge.md"
    }  # fmt: skip
    assert (folder / "Coffee Brewing.md").read_bytes() == FOREIGN
    memories = read_store(file_place)
    assert memories.keys() == {"Coffee Brewing", "plain"}
    assert memories["Coffee Brewing"]["tags"] == ["coffee", "how: to"]
    assert memories["Coffee Brewing"]["importance"] == "high"

    # Only what changed is written anew.
    change(file_place, Write("update", {"key": "Coffee Brewing", "importance": "low"}))
    mirror(file_place, folder)
    head, _, body = FOREIGN.removeprefix(b"\xef\xbb\xbf").partition(b"---\n\n")
    head = head.replace(b"importance: high\n", b"importance: low\nkey: Coffee Brewing\n")
    assert (folder / "Coffee Brewing.md").read_bytes() == head + b"---\n\n" + body


INVALID_KEYS = ('"a\\u0000b"', '"\\u202e"', "x" * 201, "'  '")


@pytest.mark.parametrize(
    "text",
    [
        "---\ntags: " + "[" * 100_000 + "]" * 100_000 + "\n---\nx",
        "<<<<<<< a\n" * 50_000,
        "[[a" * 100_000 + "```\n" * 50_001,
        "---\n" + "--- x\n" * 50_000,
        *(f"---\nkey: {key}\n---\n\ntext\n" for key in INVALID_KEYS),
    ],
)
def test_a_hostile_file_stops_nothing(text: str, file_place: FilePlace, folder: Path) -> None:
    (folder / "bad.md").write_text(text)
    (folder / "good.md").write_text("good\n")

    report = mirror(file_place, folder)
    ((path, words),) = report.problems
    assert path == "bad.md" and ("key" in words) == text.startswith("---\nkey")
    assert read_store(file_place).keys() == {"good"}


def test_no_secret_passes(file_place: FilePlace, folder: Path) -> None:
    secret = list_samples(Random(1))[0].text
    (folder / "in.md").write_text(f"one\n{secret}\n")
    change(file_place, store("out", f"a\n{secret}"))

    report = mirror(file_place, folder)
    assert sorted(path for path, _ in report.problems) == ["in.md", "out"]
    assert all(words.startswith("Line ") for _, words in report.problems)
    assert not any(secret in words for _, words in report.problems)
    assert read_files(folder).keys() == {"in.md"} and read_store(file_place).keys() == {"out"}


def test_nothing_outside_is_read_or_written(
    file_place: FilePlace, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("outside")
    (folder / "linked").symlink_to(outside)
    (folder / "file.md").symlink_to(outside / "x.md")
    (folder / ".hidden").mkdir()
    (folder / ".hidden/y.md").write_text("hidden")
    change(file_place, store("linked/z", "text"), store("ok", "text"))

    report = mirror(file_place, folder)
    assert {path for path, _ in report.problems} == {"file.md", "linked/z"}
    assert sorted(os.listdir(outside)) == ["x.md"]
    assert read_store(file_place).keys() == {"linked/z", "ok"}

    (folder / "ok.md").unlink()
    (folder / "ok.md").symlink_to(outside / "x.md")
    mirror(file_place, folder)
    assert (outside / "x.md").read_text() == "outside"


def test_one_process_mirrors_a_folder(file_place: FilePlace, folder: Path) -> None:
    with Folder(folder, "any").open():
        done = file_place.run("mirror", folder)

    assert done.exit_code == 1 and "Another process is mirroring" in done.stderr


class Killed(BaseException):
    """Ends a run where the process would have been killed."""


@pytest.mark.parametrize("seed", range(size("ABILITIES_MIRROR_KILLS", quick=2, full=12)))
def test_a_run_that_was_killed_is_finished_by_the_next(
    seed: int, file_place: FilePlace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    change(file_place, *(store(f"k{number}", "one") for number in range(9)))
    mirror(file_place, folder)
    change(file_place, *(store(f"k{number}", "theirs [[k1]]") for number in range(6)))
    change(file_place, store("new", "theirs"), Write("archive", {"key": "k7"}))
    for number in (0, 1, 6, 8):
        with (folder / f"k{number}.md").open("a") as file:
            file.write("mine\n")
    (folder / "mine.md").write_text("mine\n")

    left = random.randrange(30)

    def count_down() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    replace, unlink, remember = os.replace, os.unlink, Writer.remember

    def replace_or_die(*paths: Any, **options: Any) -> None:
        count_down()
        replace(*paths, **options)
        count_down()

    def unlink_or_die(*paths: Any, **options: Any) -> None:
        count_down()
        unlink(*paths, **options)
        count_down()

    async def remember_or_die(*arguments: Any, **options: Any) -> Any:
        count_down()
        outcomes = await remember(*arguments, **options)
        count_down()
        return outcomes

    with monkeypatch.context() as patched, suppress(Killed):
        patched.setattr(os, "replace", replace_or_die)
        patched.setattr(os, "unlink", unlink_or_die)
        patched.setattr(Writer, "remember", remember_or_die)
        patched.setattr(syncing, "_AT_ONCE", random.choice([1, 3, 50]))
        mirror(file_place, folder)

    mirror(file_place, folder)
    memories, files = read_store(file_place), read_files(folder)
    edits = {number: files.get(f"k{number}.conflict.md", b"") for number in (0, 1)}
    assert all(b"one\nmine" in edit for edit in edits.values())
    assert len([path for path in files if is_conflict(path)]) == 2
    assert memories["k6"]["content"] == memories["k8"]["content"] == "one\nmine"
    assert memories["mine"]["content"] == "mine" and b"theirs" in files["new.md"]
    assert all(b"theirs" in files[f"k{number}.md"] for number in range(6))
    assert "k7.md" not in files and "k7" not in memories
    assert not mirror(file_place, folder).counts


KEYS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=MAX_KEY_CHARS)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
SHORT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
"""Within the limits of tags, and of types and terms of links."""


@settings(max_examples=size("ABILITIES_EXAMPLES", quick=50, full=500), deadline=None)
@given(
    key=KEYS,
    content=TEXTS.filter(bool) | st.sampled_from(["---\nkey: x\n---\n", "\n", "[[a]] [[b]]"]),
    summary=TEXTS,
    tags=st.lists(SHORT.map(str.strip).filter(bool), max_size=3, unique=True),
    links=st.dictionaries(st.tuples(KEYS.filter(is_key), SHORT.filter(bool)), SHORT, max_size=3),
    metadata=st.dictionaries(TEXTS, TEXTS | st.integers(-9, 9) | st.none(), max_size=2),
    former=TEXTS | st.sampled_from([FOREIGN.decode("utf-8-sig"), "---\ntags: a\nlinks: 5\n---\n"]),
)
def test_a_file_says_what_its_memory_says(
    key: str,
    content: str,
    summary: str,
    tags: list[str],
    links: dict[tuple[str, str], str],
    metadata: dict[str, Any],
    former: str,
) -> None:
    tags = [tag for tag in tags if not tag.startswith("#")]
    dumped = {"tags": dump_sorted_json(tags), "metadata": dump_sorted_json(metadata)}
    values: dict[str, Any] = {"importance": "low", "category": "", "created_at": "", "score": 0.5}
    values |= {"namespace": "", "id": "", "archived": 0, "scored": 1, "updated_at": "", **dumped}
    row = Row(key=key, type="task", summary=summary, content=content, **values)
    rows = [LinkRow(key, target, kind, 0.25, term) for (target, kind), term in links.items()]
    stored = StoredMemory(row, tuple(rows))

    text = notes.write_note(stored, former, make_key)
    note = notes.parse_note(text)
    said = notes.read_values(note, make_key)
    said["links"] = notes.list_mentions(content, make_key) | said["links"]
    wanted = notes.describe_memory(stored)
    wanted["links"] = notes.list_mentions(content, make_key) | wanted["links"]

    assert (notes.read_key(note), said) == (key, wanted)
    assert notes.write_note(stored, text, make_key) == text


HOSTILE = [
    *("a", "A", "b", "k", "K", "\u212a", "\u00e9", "e\u0301", "\u00df", "ss", "\u017f", "\u0130"),
    *(
        "i\u0307",
        "\u0131",
        "a\u200db",
        "\u1100\u1161",
        "\uac00",
        "\ufb01",
        "fi",
        "\u65e5",
        "\U0001f600",
    ),
    *("con", "CON", "nul.txt", "x.md", "x.conflict", "x" * 90, ".", "..", " ", "/", "~", "%41"),
    *(":", "*", "?", "\\", "#", "[[x]]", "|", "-", "'", '"'),
]
"""Parts of keys that file systems confuse, forbid or cut."""


def list_hostile_keys(count: int) -> list[str]:
    """Return valid keys of hostile parts."""
    random = Random(1)
    keys: set[str] = {part for part in HOSTILE if is_key(part)}
    while len(keys) < count:
        key = "".join(random.choices(HOSTILE, k=random.randint(1, 6)))
        if is_key(key):
            keys.add(key)

    return sorted(keys)


def confuse(path: str) -> str:
    """Return what the least exact file system keeps of a name: HFS+, NTFS and ext4 together."""
    visible = "".join(char for char in path if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", visible).upper().casefold())


def list_parts(paths: list[str]) -> Iterator[str]:
    for path in paths:
        yield from path.split("/")


def test_names_that_a_file_system_confuses_are_told_apart() -> None:
    keys = list_hostile_keys(size("ABILITIES_MIRROR_NAMES", quick=3_000, full=10_000))
    plain = {key: name_file(key) for key in keys}
    marked = {key: name_file(key, marked=True) for key in keys}

    assert len({confuse(path) for path in marked.values()}) == len(keys)
    spellings: dict[str, set[str]] = {}
    for path in (*plain.values(), *marked.values()):
        spellings.setdefault(confuse(path), set()).add(fold(path))
    assert not [folded for folded in spellings.values() if len(folded) > 1]

    assert (name_file("Ada"), name_file("People/Ada")) == ("Ada.md", "People/Ada.md")
    folders = {confuse(path.rpartition("/")[0]) for path in plain.values()}
    assert not folders & spellings.keys()
    for part in list_parts([*plain.values(), *marked.values()]):
        assert len(unicodedata.normalize("NFD", part).encode("utf-16-le")) // 2 <= 230
        assert len(part.encode()) <= 230 and part == part.strip(" .") and part[0] != "."
        assert not set(part) & set('<>:"/\\|?*')
        assert part.split(".")[0].upper() not in {"CON", "NUL", "AUX", "PRN"}
        assert not is_conflict(part)


def test_hostile_keys_come_back_from_a_folder(
    place: StorePlace, folder: Path, tmp_path: Path
) -> None:
    keys = list_hostile_keys(size("ABILITIES_MIRROR_KEYS", quick=80, full=400))
    for start in range(0, len(keys), 50):
        change(place, *(store(key, f"of {key!r}") for key in keys[start : start + 50]))

    assert mirror(place, folder).counts["written"] == len(keys)
    before, files = read_store(place), read_files(folder)
    assert not mirror(place, folder).changes

    # A file system that ignores case and keeps names in another form still has all the files.
    confused = tmp_path / "confused"
    for path, data in files.items():
        (confused / confuse(path)).parent.mkdir(parents=True, exist_ok=True)
        with (confused / confuse(path)).open("xb") as file:
            file.write(data)

    for number, copy in enumerate([folder, confused]):
        other = FilePlace(tmp_path / f"other{number}.db")
        report = mirror(other, copy)
        assert not report.problems and report.counts == {"stored": len(keys)}
        assert read_store(other) == before
        assert sorted(read_files(copy).values()) == sorted(files.values())


async def test_a_watched_folder_and_its_memories_follow_each_other(
    file_place: FilePlace, folder: Path
) -> None:
    async def wait_for(key: str, content: str) -> None:
        while True:
            (found,) = await opened_store.read("default", [key])
            if isinstance(found, StoredMemory) and found.row.content == content:
                return
            await asyncio.sleep(0.05)

    async def watch() -> None:
        async for _ in Mirror(opened, opened_store, "default").watch():
            pass

    with Folder(folder, "any").open() as opened:
        async with file_place.open() as opened_store, asyncio.timeout(60):
            watching = asyncio.create_task(watch())
            (folder / "a.md").write_text("one\n")
            await wait_for("a", "one")
            (folder / "a.md").write_text("one two\n")
            await wait_for("a", "one two")

            writer = Writer("default", opened_store, "test")
            await writer.remember([store("b", "three")], atomic=False)
            while not (folder / "b.md").exists():
                await asyncio.sleep(0.05)

            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


class Clone:
    """A clone of a repository with a store of its own, at which someone works."""

    def __init__(self, origin: Path, name: str) -> None:
        self.folder = origin.parent / name
        self.name = name
        (origin.parent / f"store-{name}").mkdir()
        self.place = FilePlace(origin.parent / f"store-{name}/m.db")
        self.tokens: list[str] = []
        self.conflicts = 0
        self.git("clone", "-q", str(origin), str(self.folder), at=origin.parent)

    def git(self, *words: str, at: Path | None = None) -> int:
        settings = ("user.name=Ada", "user.email=ada@example.org", "pull.rebase=false")
        options = [word for setting in settings for word in ("-c", setting)]
        command = ["git", *options, *words]
        return subprocess.run(command, cwd=at or self.folder, capture_output=True).returncode

    def edit(self, random: Random, *, of_store: bool) -> None:
        """Add a line of its own to a memory or to a file, or make a new one."""
        token = f"{self.name}{len(self.tokens)}."
        self.tokens.append(token)
        key = f"topic/{random.randrange(12)}"
        file = self.folder / name_file(key)

        if of_store:
            append = Write("append", {"key": key, "content": f"\n{token}"})
            if isinstance(attempt(self.place, append)[0], Exception):
                change(self.place, store(key, token, importance=random.choice(["low", "high"])))
        elif file.exists():
            lines = file.read_text().splitlines()
            lines.insert(random.randint(lines.index("---", 1) + 2, len(lines)), token)
            file.write_text("\n".join(lines) + "\n")
        else:
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"---\nkey: {key}\n---\n\n{token}\n")

    def mirror(self) -> None:
        """Mirror, and merge what is in conflict as a person would: with the lines of both."""
        report = mirror(self.place, self.folder)
        for path, words in report.problems:
            assert is_conflict(path) or "Both sides" in words, (path, words)
        conflicts = [path for path in read_files(self.folder) if is_conflict(path)]
        assert len(conflicts) == report.counts["in conflict"]
        self.conflicts += len(conflicts)

        for path in conflicts:
            lost = self.folder / path
            file = self.folder / re.sub(r"\.conflict(-\d+)?", "", path)
            present = file.read_text()
            content = notes.parse_note(lost.read_text()).content.splitlines()
            added = [line for line in content if line not in present.splitlines()]
            file.write_text(present + "".join(f"{line}\n" for line in added))
            lost.unlink()

        if conflicts:
            self.mirror()

    def exchange(self, random: Random) -> None:
        """Commit, pull, merge what git cannot, mirror and push."""
        self.git("add", "-A")
        self.git("commit", "-qm", "memories")
        if self.git("pull", "-q", "origin", "main"):
            unmerged = [
                path for path in read_files(self.folder).items() if b"\n>>>>>>> " in path[1]
            ]
            refused = mirror(self.place, self.folder).problems
            assert {path for path, _ in unmerged} <= {path for path, _ in refused}
            for path, text in unmerged:
                merged = re.sub(rb"(?m)^(<<<<<<<|=======|>>>>>>>).*\n", b"", text)
                (self.folder / path).write_bytes(merged)
            self.git("add", "-A")
            assert self.git("commit", "-qm", "merged") == 0

        if random.random() < 0.5:
            self.edit(random, of_store=True)
        self.mirror()
        self.git("add", "-A")
        self.git("commit", "-qm", "mirrored")
        self.git("push", "-q", "origin", "HEAD:main")


def test_two_clones_with_two_stores_lose_no_edit(tmp_path: Path) -> None:
    random = Random(7)
    origin = tmp_path / "origin"
    origin.mkdir()
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", "."], cwd=origin, check=True)
    first = Clone(origin, "a")
    (first.folder / "README.txt").write_text("memories")
    for words in ("add README.txt", "commit -m first", "push origin HEAD:main"):
        assert first.git(*words.split()) == 0
    clones = [first, Clone(origin, "b")]
    for clone in clones:
        clone.mirror()

    edits = size("ABILITIES_MIRROR_EDITS", quick=25, full=80)
    while min(len(clone.tokens) for clone in clones) < edits:
        for clone in clones:
            for _ in range(random.randint(1, 12)):
                clone.edit(random, of_store=random.random() < 0.5)
            clone.mirror()
            if random.random() < 0.7:
                clone.exchange(random)

    for clone in (*clones, *clones, *clones):
        clone.exchange(Random(0))  # whose first number adds no edit

    memories, others = (read_store(clone.place) for clone in clones)
    assert memories == others
    assert read_files(clones[0].folder) == read_files(clones[1].folder)
    assert sum(clone.conflicts for clone in clones) > 0
    lines = {line for memory in memories.values() for line in memory["content"].splitlines()}
    assert set(clones[0].tokens + clones[1].tokens) <= lines


def test_a_moved_note_without_a_key_stays_the_same_memory(
    file_place: FilePlace, folder: Path
) -> None:
    (folder / "Tea.md").write_text("hot\n")
    (folder / "from.md").write_text("[[Tea]]\n")
    mirror(file_place, folder)
    first = file_place.read_memories()["Tea"]["id"]

    (folder / "Drinks").mkdir()
    (folder / "Tea.md").rename(folder / "Drinks/Tea.md")
    assert mirror(file_place, folder).counts["renamed"] == 1
    mirror(file_place, folder)
    assert read_store(file_place).keys() == {"Drinks/Tea", "from"}
    assert file_place.read_memories()["Drinks/Tea"]["id"] == first
    assert (folder / "from.md").read_text() == "[[Tea]]\n"
    assert read_store(file_place)["from"]["links"][0]["key"] == "Drinks/Tea"


def test_a_name_that_finds_another_note_links_to_it(
    file_place: FilePlace, folder: Path, tmp_path: Path
) -> None:
    (folder / "note.md").write_text("[[Ada]]\n")
    mirror(file_place, folder)
    assert read_store(file_place)["note"]["links"][0]["key"] == "Ada"

    (folder / "people").mkdir()
    (folder / "people/Ada.md").write_text("Ada\n")
    change(file_place, Write("append", {"key": "note", "content": "\nmore"}))
    mirror(file_place, folder)
    assert [link["key"] for link in read_store(file_place)["note"]["links"]] == ["people/Ada"]
    assert (folder / "note.md").read_text() == "---\nkey: note\ntype: core\n---\n\n[[Ada]]\nmore\n"

    other = FilePlace(tmp_path / "other.db")
    mirror(other, folder)
    assert read_store(other) == read_store(file_place)


def test_files_that_are_behind_an_unknown_store_are_no_conflict(
    place: StorePlace, folder: Path
) -> None:
    change(place, store("a", "one"), store("b", "one"))
    mirror(place, folder)
    shutil.rmtree(folder / ".abilities")
    (folder / "b.md").write_text("---\nkey: b\n---\n\nmine\n")
    change(place, store("a", "two"), store("a", "three"), store("b", "two"))

    report = mirror(place, folder)
    assert report.counts == {"written": 2, "in conflict": 1}
    assert read_files(folder).keys() == {"a.md", "b.md", "b.conflict.md"}
    assert b"three" in read_files(folder)["a.md"]


def test_a_store_that_went_back_overwrites_no_file(file_place: FilePlace, folder: Path) -> None:
    change(file_place, store("a", "one"))
    mirror(file_place, folder)
    backup = file_place.path.with_name("backup.db")
    assert file_place.run("backup", backup).exit_code == 0
    (folder / "a.md").write_text("---\nkey: a\n---\n\nnew\n")
    mirror(file_place, folder)

    assert file_place.run("restore", backup, "--replace").exit_code == 0
    change(file_place, store("a", "other"), store("a", "again"), store("x", "text"))
    report = mirror(file_place, folder)
    assert report.counts["in conflict"] == 1
    assert b"new" in read_files(folder)["a.conflict.md"]


def test_hostile_links_in_a_folder_lead_nowhere(
    file_place: FilePlace, folder: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    own = folder / ".abilities"
    own.mkdir()
    for link in ("part", ".gitignore", "mirror.lock"):
        (own / link).symlink_to(victim)
    for link in ("a.md.part", "a.conflict.md"):
        (folder / link).symlink_to(victim)
    change(file_place, store("a", "one"))
    (folder / "a.md").write_text("two\n")

    assert file_place.run("mirror", folder).exit_code == 1
    for link in ("part", "mirror.lock"):
        (own / link).unlink(missing_ok=True)
    mirror(file_place, folder)
    assert victim.read_text() == "mine" and not victim.is_symlink()
    assert {b"two\n"} < set(read_files(folder).values())

    shutil.rmtree(own)
    own.symlink_to(tmp_path)
    assert "cannot be used" in file_place.run("mirror", folder).stderr


def test_a_file_keeps_its_rights_and_a_long_name(file_place: FilePlace, folder: Path) -> None:
    file = folder / f"{'n' * 252}.md"
    file.write_text("---\nkey: long\n---\n\none\n")
    file.chmod(0o664)
    mirror(file_place, folder)
    change(file_place, store("long", "two"))

    assert mirror(file_place, folder).counts == {"written": 1}
    assert b"two" in file.read_bytes() and file.stat().st_mode & 0o777 == 0o664


def test_a_file_whose_name_another_one_took_is_not_gone(
    file_place: FilePlace, folder: Path
) -> None:
    change(file_place, store("Ada", "one"))
    mirror(file_place, folder)
    (folder / "Ada.md").unlink()
    (folder / "ada.md").write_text("---\nkey: ada\n---\n\ntwo\n")  # as git does without case

    assert mirror(file_place, folder, deletes=True).counts == {"stored": 1, "written": 1}
    assert read_store(file_place).keys() == {"Ada", "ada"}
    assert len(read_files(folder)) == 2


def test_values_that_editors_write_over_several_lines_are_read() -> None:
    text = """---
summary: >-
  one
  two
links:
  - key: tea
    link_weight: 0.8
  - "[[cup]]"
tags:
  # none
category:
---
x"""
    values = notes.read_values(notes.parse_note(text), make_key)

    assert values["summary"] == "one two"
    assert {(link.target, link.weight) for link in values["links"].values()} == {
        ("tea", 0.8), ("cup", 0.5)
    }  # fmt: skip
    assert (values["tags"], values["category"]) == ([], "")
    assert notes.list_names("[[a|b]] [[c#d]] | [[e\\|f]] | ![[g]] [[#h]]") == ["a", "c", "e"]


def test_links_beyond_what_one_call_may_send_can_be_edited(
    file_place: FilePlace, folder: Path
) -> None:
    links = [LinkInput(key=f"k{number}") for number in range(1_500)]
    change(file_place, store("hub", "text", links=links[:900]), store("hub", "text", links=links))
    mirror(file_place, folder)
    file = folder / "hub.md"

    file.write_text(file.read_text().replace("text", "other").replace('k7"', 'k7777"'))
    assert mirror(file_place, folder).counts == {"stored": 1}
    keys = {link["key"] for link in read_store(file_place)["hub"]["links"]}
    assert len(keys) == 1_500 and "k7777" in keys and "k7" not in keys


def test_a_folder_that_cannot_be_listed_archives_nothing(
    file_place: FilePlace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(file_place, store("a/b", "text"))
    mirror(file_place, folder)
    opened = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "a":
            raise PermissionError(errno.EACCES, "denied", "a")
        return opened(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(Unusable, match="cannot be listed"):
            mirror(file_place, folder, deletes=True)
    assert read_store(file_place).keys() == {"a/b"}


def test_a_full_disk_leaves_the_file_as_it_was(
    file_place: FilePlace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(file_place, store("a", "one"))
    mirror(file_place, folder)
    change(file_place, store("a", "two"))
    sync = os.fsync

    def fill(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").stat().st_size > 4 and os.fstat(descriptor).st_mode:
            raise OSError(errno.ENOSPC, "full")
        sync(descriptor)

    with monkeypatch.context() as patched, pytest.raises((OSError, Unusable)):
        patched.setattr(os, "fsync", fill)
        mirror(file_place, folder)

    assert b"one" in read_files(folder)["a.md"]
    assert mirror(file_place, folder).counts == {"written": 1}
    assert b"two" in read_files(folder)["a.md"]


def test_a_state_of_strangers_leads_to_no_file_outside(file_place: FilePlace, folder: Path) -> None:
    change(file_place, store("a", "one"))
    mirror(file_place, folder)
    (state,) = (folder / ".abilities").glob("*.json")
    for path in ("../outside.md", "/tmp/outside.md", ".././outside.md"):
        (folder / "a.md").unlink(missing_ok=True)
        state.write_text(re.sub(r'(?<="a":\[")[^"]*', path, state.read_text()))
        report = mirror(file_place, folder)
        assert [words for _, words in report.problems] == ["Its path leads elsewhere."]
    assert not (folder.parent / "outside.md").exists()
