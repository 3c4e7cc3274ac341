"""The search of files: what it finds and what it never shows, its bounds, and how it goes on.

It finds what matching every shown line would, however it is paged.
"""

import asyncio
import os
import re
import tempfile
import time
from codecs import BOM_UTF8
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Settings
from abilities.declarations.refusals import Refused
from abilities.helpers.files import file_walk, searcher
from abilities.helpers.files.file_walk import ListingRequest
from abilities.helpers.files.files import Files
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.reader import FileText, Root
from abilities.helpers.files.redaction import SHAPES, find_secrets, format_mark
from abilities.helpers.files.searcher import MAX_BLOCK, Hit, SearchRequest
from abilities.helpers.text import decode, detect_encoding, replace_markers
from abilities.helpers.threads.workers import WorkerPool
from tests.files.test_confinement import SECRET, file_becomes_link, swap_names
from tests.support.reading import count_descriptors, write_files
from tests.support.sample_files import make_roots
from tests.support.secret_samples import HEX, WORD, draw, draw_block
from tests.support.stalls import NEVER, item_seconds
from tests.support.tier import size
from tests.support.waiting import wait_until

RACES = size("ABILITIES_SEARCH_RACES", quick=50, full=1_000)
MOST_RACES = RACES + 100_000

EXAMPLES = size("ABILITIES_EXAMPLES", quick=10, full=60)
some = hypothesis_settings(max_examples=EXAMPLES * 2)
many = hypothesis_settings(max_examples=EXAMPLES * 20)

PATTERNS_REFUSED = (r"(?=a)", r"(a)\1", "(", "a)(b", "[", "*", r"\pL{900}", "(.{900}){900}")
SLOW_PATTERNS = ["(a+)+$", "(a|aa)+$", "(a|b)*a(a|b){12}c", "(x+x+)+y", r"(.*)*\d", "a{0,900}b"]
WORKERS = WorkerPool()


class Clock:
    """A clock that goes on by half a millisecond whenever somebody looks at it."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.0005
        return self._now


class Tree:
    """Files of two roots, and what searches, lists and reads them."""

    def __init__(self, settings: Settings) -> None:
        roots = [Root(place.name, place.path) for place in settings.roots]
        self.files = Files(roots, settings.policy, WORKERS)

    async def search(
        self, text: str, *, is_regex: bool = False, glob: str = "**/*", **more: Any
    ) -> searcher.SearchResult:
        """Search in one call, without context if none is asked for."""
        limits: dict[str, Any] = {"context": 0, "limit": 100, **more}
        return await self.files.search(SearchRequest(text, is_regex, Glob(glob), **limits))

    async def search_on(self, text: str, **more: Any) -> list[searcher.SearchResult]:
        """Search from call to call, until all has been searched."""
        results: list[searcher.SearchResult] = []
        after: tuple[str, int] | None = ("", 0)

        while after is not None:
            results.append(await self.search(text, after=after, **more))
            assert results[-1].after is None or results[-1].after > after, "a search goes on"
            after = results[-1].after

        return results


@pytest.fixture
def tree(roots: Settings) -> Tree:
    return Tree(roots)


def list_lines(result: searcher.SearchResult) -> list[int]:
    return [line for hit in result.hits for line in hit.lines]


def write(roots: Settings, **contents: str) -> None:
    files = {f"{name}.txt": content for name, content in contents.items()}
    write_files(roots.workspace_dir, files)


@pytest.mark.parametrize(
    ("text", "is_regex", "reason"),
    [
        ("", False, "too_short"),
        ("x" * 1_001, False, "too_long"),
        ("a\nb", False, "invalid_format"),
        ("a\r", True, "invalid_format"),
        ("\ud800", False, "invalid_format"),
        *((pattern, True, "invalid_pattern") for pattern in PATTERNS_REFUSED),
    ],
)
async def test_what_cannot_be_searched_for_is_refused(
    text: str, is_regex: bool, reason: str, tree: Tree
) -> None:
    with pytest.raises(Refused) as caught:
        await tree.search(text, is_regex=is_regex)

    assert (caught.value.reason, caught.value.field) == (reason, "search")


@pytest.mark.parametrize("redact", [True, False])
@pytest.mark.parametrize("is_regex", [True, False])
async def test_a_search_for_whole_words_finds_them_alone(
    is_regex: bool, redact: bool, roots: Settings
) -> None:
    words = ["tea", "té", "é", "世界", "a.b", "axb", "[x]", "x", "_", "1", "TEA", "tea|té"]
    beside = ["", " ", "_", "é", "1", "世", "-", "[", "\r"]
    lines = [f"{before}{word}{after}" for word in words for before in beside for after in beside]
    lines += ["teatea tea", "teatea", "tea_ _tea"]
    text = "\n".join(lines).replace("\r\n", "\n\n")
    write(roots, a=text)
    tree = Tree(roots.model_copy(update={"redact": redact}))

    for word in ("tea", "tee", "é", "世界", "a.b", "[x]", "tea|té", "_", "(?i:TEA)"):
        pattern = word if is_regex else re.escape(word)
        wanted = re.compile(rf"(?<!\w)(?:{pattern})(?!\w)")
        expected = [n for n, line in enumerate(text.split("\n"), 1) if wanted.search(line)]

        result = await tree.search(word, is_regex=is_regex, is_whole=True, limit=1_000)

        assert list_lines(result) == expected, word
        assert bool(expected) == (word != "tee" and (is_regex or word != "(?i:TEA)"))


async def test_a_glob_says_what_is_searched(tree: Tree, roots: Settings) -> None:
    names = ("a.txt", "ab.txt", "b.txt", "node_modules/c.txt")
    write_files(roots.workspace_dir, dict.fromkeys(names, "tea"))

    for glob, found in (("**/*", names[:3]), ("a*.txt", names[:2]), ("node_modules/*", names[3:])):
        result = await tree.search("tea", glob=glob)

        assert [hit.position for hit in result.hits] == [*found]
        assert result.searched == len(found)


async def test_a_line_matches_without_its_line_end(tree: Tree, roots: Settings) -> None:
    write(roots, a="one\r\ntwo\r\n\r\nthree\nfour", b="no line follows this one\n")
    found = {"e$": [1, 4, 1], "^$": [3], "four$": [5], r"o\s+t": [], r"one[^z]+": []}

    for pattern, lines in found.items():
        assert list_lines(await tree.search(pattern, is_regex=True)) == lines, pattern


async def test_what_is_not_shared_is_never_found(tree: Tree, roots: Settings) -> None:
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
        result = await tree.search("tea", glob=pattern)
        found = [hit.position for hit in result.hits]
        assert found == (["fine.txt", "inside"] if pattern == "**/*" else []), pattern
        assert result.skipped == 0, "nobody is told of them"


async def test_a_secret_is_neither_found_nor_shown(tree: Tree, roots: Settings) -> None:
    write(roots, a=f"key = '{TOKEN}'\nuse(key)\n")

    for text, is_regex in ((TOKEN, False), (TOKEN[:12], False), ("ghp_", True), ("key = .g", True)):
        assert (await tree.search(text, is_regex=is_regex)).hits == [], text

    result = await tree.search("use", context=1)
    marked = await tree.search("key = '[secret: GitHub")
    shown = await Tree(roots.model_copy(update={"redact": False})).search(TOKEN)

    assert result.hits[0].text == "key = '[secret: GitHub token]'\nuse(key)\n"
    assert marked.hits[0].lines == (1,)
    assert shown.hits[0].text == f"key = '{TOKEN}'\n"

    write(roots, b=f"{KEY}\nuse it\n")
    assert list_lines(await tree.search("use", after=("b.txt", 1))) == [KEY.count("\n") + 2]
    assert list_lines(await tree.search("use", after=("b.txt", 99))) == []


async def test_a_long_line_is_cut_around_its_match(tree: Tree, roots: Settings) -> None:
    write(roots, a="first\n" + "ä" * 9_000 + "NEEDLE" + "ö" * 9_000 + "\nlast\n")

    (hit,) = (await tree.search("NEEDLE", context=1)).hits

    assert (hit.path, hit.is_cut, hit.lines) == ("a.txt#L1-L3", True, (2,))
    assert hit.text == "ä" * 500 + "NEEDLE" + "ö" * (2_000 - 506)


async def test_a_block_that_would_be_too_long_is_several(tree: Tree, roots: Settings) -> None:
    lines = [f"line {n:03}\n" for n in range(1_000)]
    write(roots, a="".join(lines))

    result = await tree.search("line", context=3)

    assert "".join(hit.text for hit in result.hits) == "".join(lines)
    assert list_lines(result) == list(range(1, 1_001))
    assert not any(hit.is_cut for hit in result.hits)
    assert len(result.hits) == 5


async def test_what_cannot_be_searched_is_counted(
    tree: Tree, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher, "MAX_FILE_BYTES", 100)
    files = {"fine.txt": "tea", "large.txt": "tea" * 50, "binary": b"tea\0"}
    write_files(roots.workspace_dir, files)

    result = await tree.search("tea")

    assert [hit.position for hit in result.hits] == ["fine.txt"]
    assert (result.searched, result.skipped, result.after) == (1, 2, None)


@pytest.mark.parametrize("is_regex", [True, False])
@pytest.mark.parametrize("limit", ["file_walk.SECONDS", "searcher.MAX_BYTES"])
async def test_a_search_that_takes_too_much_goes_on_in_the_next_call(
    limit: str, is_regex: bool, tree: Tree, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"abilities.helpers.files.{limit}", 0)
    files = ("a", "b", "x/a", "x/b", "x/y/a", "x/y/b", "x/y/z", "x/z", "z")
    write_files(roots.workspace_dir, dict.fromkeys(files, "tea\n" * 2))

    results = await tree.search_on("tea", is_regex=is_regex)

    assert [hit.path for result in results for hit in result.hits] == [f"{p}#L1-L2" for p in files]
    assert all(result.searched <= 1 for result in results)
    assert [result.is_over_time for result in results] == [True] * (len(results) - 1) + [False]
    assert len(results) >= len(files)


async def test_time_that_ends_within_a_file_loses_no_hit(
    tree: Tree, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(roots, a="tea\n" * 5_000, b="tea\n")
    monkeypatch.setattr(file_walk, "SECONDS", 0)
    monkeypatch.setattr(searcher, "time", Clock())

    results = await tree.search_on("^tea", is_regex=True, limit=10_000)

    hits = [hit for result in results for hit in result.hits]
    lines = [(hit.position, line) for hit in hits for line in hit.lines]
    assert lines == [*(("a.txt", n) for n in range(1, 5_001)), ("b.txt", 1)]
    assert not any(result.skipped for result in results)
    assert len(results) > 3


async def test_a_file_that_alone_takes_too_long_is_skipped(
    tree: Tree, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(roots, a="coffee\n" * 20, b="tea\n")
    monkeypatch.setattr(file_walk, "SECONDS", -1)
    monkeypatch.setattr(searcher, "FIRST_FILE_SECONDS", -1)

    first = await tree.search("^tea", is_regex=True)

    assert (first.hits, first.searched, first.skipped) == ([], 1, 1)
    assert first.after == ("b.txt", 0)


async def test_a_search_goes_on_although_its_file_is_gone(tree: Tree, roots: Settings) -> None:
    write(roots, a="tea\n", b="tea\n", c="tea\n")
    first = await tree.search("tea", limit=2)
    (roots.workspace_dir / "b.txt").unlink()
    second = await tree.search("tea", limit=2, after=("b.txt", 1))

    assert (first.after, first.is_over_time) == (("b.txt", 1), False)
    assert ([hit.path for hit in second.hits], second.after) == (["c.txt#L1-L1"], None)


@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
async def test_slow_patterns_are_not(pattern: str, tree: Tree, roots: Settings) -> None:
    lines = ("a" * 30 + "!\n") * 9_000
    write(roots, a="a" * 200_000, b="ab" * 100_000 + "\n", c=lines)
    began = time.process_time()

    result = await tree.search(pattern, is_regex=True, glob="*.txt")

    assert result.searched + result.skipped > 0
    assert time.process_time() - began < 10, "an engine that backtracks would take ages"


async def test_a_long_line_is_searched_as_far_as_a_pattern_is_cheap(
    tree: Tree, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher, "_MAX_PIECE", 100)
    write(roots, a="x" * 90 + "tea\n" + "x" * 110 + "tea\n" + "tea\n" * 60)

    result = await tree.search("t[e]a", is_regex=True)

    assert list_lines(result) == [1, *range(3, 63)]


async def test_a_root_that_is_gone_is_unavailable(tree: Tree, roots: Settings) -> None:
    roots.workspace_dir.rmdir()

    with pytest.raises(Refused, match="root_unavailable"):
        await tree.search("tea")


async def test_searching_leaves_no_descriptor_behind(tree: Tree, roots: Settings) -> None:
    write_files(roots.workspace_dir, dict.fromkeys(("a/f", "b/f", "c/f"), "tea\n"))
    before = count_descriptors()

    for limit in (1, 2, 100):
        await tree.search("tea", limit=limit)

    await wait_until(lambda: count_descriptors() <= before)


async def test_no_race_ever_finds_what_is_outside(
    tree: Tree, roots: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = roots.workspace_dir, roots.workspace_dir.parent / "outside"
    write_files(outside, {"secret.txt": SECRET})
    race = file_becomes_link(root, outside)
    counts = {"inside": 0, "nothing": 0}

    with swap_names(race.name, race.other), item_seconds(monkeypatch, NEVER):
        while sum(counts.values()) < RACES or not all(counts.values()):
            hits = (await tree.search("i")).hits
            assert all(hit.text == "inside" for hit in hits)
            counts["inside" if hits else "nothing"] += 1
            assert sum(counts.values()) < MOST_RACES, counts


CHANCE = Random(7)
TOKEN = "ghp_" + draw(CHANCE, WORD, 36)
KEY = draw_block(CHANCE, "RSA ", 3)
LOGIN = f"https://ada:{draw(CHANCE, HEX, 16)}@example.org/"

PARTS = [
    *("\n", "\r\n", "alpha beta", "beta[", "]gamma", "käse 世界", "\ufffd", "a" * 40 + "b"),
    *("[secret: GitHub token]", f"x{TOKEN}" + "y", f" {TOKEN} "),
    f"beta['{TOKEN}']gamma",
    f"before {KEY} behind",
    LOGIN,
    "line\n" * 30,
    "long " * 450 + "beta" + " long" * 450,
]
RAW_PARTS = [*(part.encode() for part in PARTS), b"\xe4\xf6", b"\xe2\x82", b"\x80beta"]

raws = st.one_of(
    st.lists(st.sampled_from(RAW_PARTS), max_size=12).map(b"".join),
    st.lists(st.sampled_from(RAW_PARTS), max_size=6).map(lambda raw: BOM_UTF8 + b"".join(raw)),
    st.lists(st.sampled_from(PARTS), max_size=6).map(lambda text: "".join(text).encode("utf-16")),
    st.just(b"beta\0gamma\n"),
)
NAMES = ("a.txt", "b/a.txt", "b/c#L2", "b.txt", "Z")
PATHS = [f"{root}/{name}" for root in ("agent", "workspace") for name in NAMES]
trees = st.dictionaries(st.sampled_from(PATHS), raws, max_size=6)
literals = st.one_of(
    st.sampled_from(["beta", "a", "[", "]", "beta[", "]gamma", "['[", "secret", "\ufffd", "世"]),
    st.sampled_from(["[secret: private key]", "x[secret", "token]y", ":", "]'", "zzz", " b", "]["]),
    st.tuples(st.sampled_from(PARTS), st.integers(0, 30), st.integers(1, 12)).map(
        lambda cut: cut[0][cut[1] : cut[1] + cut[2]].replace("\r", "x").replace("\n", "x") or "x"
    ),
)
PATTERNS = [
    *("beta$", "^beta", "^$", r"\w+\[secret", r"\s", "[^b]*b", "a.*gamma", r"key\] behind$"),
    *("(a+)+$", "(?i)ALPHA|世", "x*", r"\bb", r"\Ba", "^.{5,30}$", r"a\C*b", "line(?-s:.)*$"),
]
searches = st.one_of(
    st.tuples(literals, st.just(False)), st.tuples(st.sampled_from(PATTERNS), st.just(True))
)


class Line(NamedTuple):
    """A shown line, and the lines of the file that it stands for."""

    first: int
    last: int
    text: str


def show_lines(raw: bytes) -> list[Line]:
    """Return the lines that a reader is shown of a whole file, character by character."""
    encoding = detect_encoding(raw)
    text, _ = decode(raw[encoding.bom :], encoding, final=True)
    secrets = {secret.start: secret for secret in find_secrets(text)}
    lines: list[Line] = []
    shown, first, number, place = "", 1, 1, 0

    while place < len(text):
        secret = secrets.get(place)
        if secret is not None:
            shown += format_mark(secret.kind)
            number += text[secret.start : secret.end].count("\n")
            place = secret.end
            continue

        shown += text[place]
        if text[place] == "\n":
            lines.append(Line(first, number, replace_markers(shown)))
            shown, first, number = "", number + 1, number + 1
        place += 1

    if shown:
        lines.append(Line(first, number, replace_markers(shown)))

    return lines


def line_matches(text: str, wanted: str, is_regex: bool) -> bool:
    content = text.removesuffix("\n").removesuffix("\r")
    if not is_regex:
        return wanted in text

    engine = import_module("re2")  # has no types
    options = engine.Options()
    options.never_nl = True
    return bool(engine.compile(wanted, options).search(content))


def find_naively(lines: list[Line], wanted: str, is_regex: bool, context: int) -> Iterator[Hit]:
    """Yield the blocks of a file, with no path: by their definition, on lists of lines."""
    numbers = [n for n, line in enumerate(lines) if line_matches(line.text, wanted, is_regex)]
    blocks: list[list[int]] = []  # first, last, and the matching lines

    for n in numbers:
        first, last = max(n - context, 0), min(n + context, len(lines) - 1)
        if blocks:
            block = blocks[-1]
            joined = "".join(line.text for line in lines[block[0] : last + 1])
            if first <= block[1] + 1 and len(joined.encode()) <= MAX_BLOCK:
                block[1] = last
                block.append(n)
                continue
            block[1] = min(block[1], n - 1)
            first = max(first, block[1] + 1)
        blocks.append([first, last, n])

    for first, last, *matching in blocks:
        text = "".join(line.text for line in lines[first : last + 1])
        end = lines[last].last
        matches = tuple(lines[n].first for n in matching)
        path = f"#L{lines[first].first}-L{end}"
        yield Hit(path, "", "", end, matches, text, len(text) > MAX_BLOCK)


async def search_naively(tree: Tree, base: Path, *wanted: Any) -> list[Hit]:
    """Return all hits, from every listed file that has no zero byte."""
    listing = await tree.files.list_files(ListingRequest(Glob("**/*"), "", 500))
    hits: list[Hit] = []

    for file in listing.files:
        raw = (base / file.source / file.position).read_bytes()
        if detect_encoding(raw).unit == 1 and b"\0" in raw:
            continue
        for hit in find_naively(show_lines(raw), *wanted):
            path = file.position + hit.path
            hits.append(hit._replace(path=path, position=file.position, source=file.source))

    return hits


@some
@given(trees, searches, st.integers(0, 3), st.integers(1, 4))
def test_a_search_finds_what_matching_every_shown_line_finds(
    files: dict[str, bytes], wanted: tuple[str, bool], context: int, limit: int
) -> None:
    text, is_regex = wanted

    async def check(base: Path) -> None:
        settings = make_roots(base)
        write_files(base, files)
        tree = Tree(settings)
        result = await tree.search(text, is_regex=is_regex, context=context, limit=10_000)
        expected = await search_naively(tree, base, text, is_regex, context)

        compared = [hit._replace(text="") if hit.is_cut else hit for hit in result.hits]
        assert compared == [hit._replace(text="") if hit.is_cut else hit for hit in expected]
        assert (result.after, result.is_over_time) == (None, False)
        assert all(len(hit.text) <= MAX_BLOCK for hit in result.hits)

        pages = await tree.search_on(text, is_regex=is_regex, context=context, limit=limit)
        assert [hit for page in pages for hit in page.hits] == result.hits
        assert all(len(page.hits) == limit for page in pages[:-1])

        whole = [hit for hit in result.hits if not hit.is_cut]
        read = await tree.files.read([hit.path for hit in whole], 10 * MAX_BLOCK)
        for hit, outcome in zip(whole, read, strict=True):
            assert isinstance(outcome, FileText)
            assert (replace_markers(outcome.piece.text), outcome.source) == (hit.text, hit.source)

        assert is_regex or all(text in hit.text for hit in result.hits if hit.is_cut)

    with (
        tempfile.TemporaryDirectory() as base,
        pytest.MonkeyPatch.context() as patch,
        item_seconds(patch, NEVER),  # a busy machine may be slow
    ):
        asyncio.run(check(Path(base)))


@many
@given(st.lists(st.sampled_from(RAW_PARTS), max_size=4).map(b"".join), literals)
def test_a_file_without_the_needle_of_a_literal_has_no_match(raw: bytes, literal: str) -> None:
    shown = "".join(line.text for line in show_lines(raw))

    if literal in shown:
        assert searcher.find_needle(literal, redacts=True) in raw


MARKS = sorted({format_mark(kind) for kind, _ in SHAPES})
surroundings = st.text(st.sampled_from("ab[]:s \ufffd"), max_size=4)


@many
@given(
    st.lists(st.one_of(surroundings, st.sampled_from(MARKS)), max_size=5),
    st.integers(0, 40),
    st.integers(1, 60),
)
def test_no_part_of_a_mark_is_a_needle(parts: list[str], start: int, length: int) -> None:
    literal = "".join(parts)[start : start + length]
    hidden = "".join("\n" if part in MARKS else part.replace("\ufffd", "\n") for part in parts)

    if literal:
        assert searcher.find_needle(literal, redacts=True).decode() in hidden


def test_the_needle_is_all_of_most_literals() -> None:
    for literal in ("def main(", "items[0]"):
        assert searcher.find_needle(literal, redacts=True) == literal.encode()

    assert searcher.find_needle("] = items[", redacts=True) == b" = items"
    assert searcher.find_needle("[s] x", redacts=False) == b"[s] x"
    assert (
        searcher.find_needle("GitHub", redacts=True)
        == searcher.find_needle("\ufffd", redacts=False)
        == b""
    )
