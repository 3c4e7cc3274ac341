"""Properties of the search: it finds what matching every shown line would, however it is paged."""

import asyncio
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Settings
from abilities.helpers.files.globs import Glob
from abilities.helpers.files.lister import FileLister, ListingRequest
from abilities.helpers.files.reader import FileReader, FileText
from abilities.helpers.files.redaction import SHAPES, find_secrets, format_mark
from abilities.helpers.files.roots import Root
from abilities.helpers.files.searcher import (
    MAX_BLOCK,
    FileSearcher,
    Hit,
    SearchRequest,
    SearchResult,
    find_needle,
)
from abilities.helpers.text.codec import decode, detect_encoding, replace_markers
from abilities.helpers.threads.workers import WorkerPool
from tests.support.reading import write_files
from tests.support.secret_samples import HEX, WORD, draw, draw_block
from tests.support.tier import size

EXAMPLES = size("ABILITIES_EXAMPLES", quick=10, full=60)
some = hypothesis_settings(max_examples=EXAMPLES * 2, deadline=None)
many = hypothesis_settings(max_examples=EXAMPLES * 20, deadline=None)

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
    st.lists(st.sampled_from(RAW_PARTS), max_size=6).map(
        lambda raw: b"\xef\xbb\xbf" + b"".join(raw)
    ),
    st.lists(st.sampled_from(PARTS), max_size=6).map(lambda text: "".join(text).encode("utf-16")),
    st.just(b"beta\0gamma\n"),
)
NAMES = ("a.txt", "b/a.txt", "b/c#L2", "b.txt", "Z")
trees = st.dictionaries(
    st.tuples(st.sampled_from(("agent", "workspace")), st.sampled_from(NAMES)), raws, max_size=6
)
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


class Tree:
    """Files of two roots, and what searches and reads them."""

    def __init__(self, base: str, files: dict[tuple[str, str], bytes]) -> None:
        self._base = Path(base)
        for name in ("agent", "workspace"):
            (self._base / name).mkdir()
        write_files(self._base, {f"{root}/{name}": raw for (root, name), raw in files.items()})
        settings = Settings(agent_dir=self._base / "agent", workspace_dir=self._base / "workspace")
        roots = [Root(place.name, place.path) for place in settings.roots]
        self.searcher = FileSearcher(roots, settings.policy, WORKERS)
        self.lister = FileLister(roots, settings.policy, WORKERS)
        self.reader = FileReader(roots, settings.policy, WORKERS)

    def read(self, source: str, position: str) -> bytes:
        return (self._base / source / position).read_bytes()


WORKERS = WorkerPool()


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


async def search_naively(tree: Tree, wanted: str, is_regex: bool, context: int) -> list[Hit]:
    """Return all hits, from every listed file that has no zero byte."""
    listing = await tree.lister.list_files(ListingRequest(Glob("**/*"), "", 500))
    hits: list[Hit] = []

    for file in listing.files:
        raw = tree.read(file.source, file.position)
        if detect_encoding(raw).unit == 1 and b"\0" in raw:
            continue
        for hit in find_naively(show_lines(raw), wanted, is_regex, context):
            path = file.position + hit.path
            hits.append(hit._replace(path=path, position=file.position, source=file.source))

    return hits


async def search_in_pages(tree: Tree, request: SearchRequest) -> list[Hit]:
    hits: list[Hit] = []
    after: tuple[str, int] | None = ("", 0)

    while after is not None:
        result: SearchResult = await tree.searcher.search(request._replace(after=after))
        assert result.after is None or len(result.hits) == request.limit
        assert result.after is None or result.after > after, "a search goes on"
        assert not result.is_over_time
        hits += result.hits
        after = result.after

    return hits


@some
@given(trees, searches, st.integers(0, 3), st.integers(1, 4))
def test_a_search_finds_what_matching_every_shown_line_finds(
    files: dict[tuple[str, str], bytes], wanted: tuple[str, bool], context: int, limit: int
) -> None:
    request = SearchRequest(*wanted, Glob("**/*"), context, 10_000)

    async def check(tree: Tree) -> None:
        result = await tree.searcher.search(request)
        expected = await search_naively(tree, *wanted, context)

        compared = [hit._replace(text="") if hit.is_cut else hit for hit in result.hits]
        assert compared == [hit._replace(text="") if hit.is_cut else hit for hit in expected]
        assert result.after is None
        assert all(len(hit.text) <= MAX_BLOCK for hit in result.hits)

        assert await search_in_pages(tree, request._replace(limit=limit)) == result.hits

        whole = [hit for hit in result.hits if not hit.is_cut]
        read = await tree.reader.read([hit.path for hit in whole], 10 * MAX_BLOCK)
        for hit, outcome in zip(whole, read, strict=True):
            assert isinstance(outcome, FileText)
            assert (replace_markers(outcome.piece.text), outcome.source) == (hit.text, hit.source)

        for hit in result.hits:
            if hit.is_cut and not wanted[1]:
                assert wanted[0] in hit.text

    with tempfile.TemporaryDirectory() as base:
        asyncio.run(check(Tree(base, files)))


@many
@given(st.lists(st.sampled_from(RAW_PARTS), max_size=4).map(b"".join), literals)
def test_a_file_without_the_needle_of_a_literal_has_no_match(raw: bytes, literal: str) -> None:
    shown = "".join(line.text for line in show_lines(raw))

    if literal in shown:
        assert find_needle(literal, redacts=True) in raw


MARKS = sorted({format_mark(shape.kind) for shape in SHAPES})
surroundings = st.text(st.sampled_from("ab[]:s \ufffd"), max_size=4)


@many
@given(
    st.lists(st.one_of(surroundings, st.sampled_from(MARKS)), max_size=5),
    st.integers(0, 40),
    st.integers(1, 60),
)
def test_no_part_of_a_mark_counts_as_certain_to_be_in_a_file(
    parts: list[str], start: int, length: int
) -> None:
    literal = "".join(parts)[start : start + length]
    hidden = "".join("\n" if part in MARKS else part.replace("\ufffd", "\n") for part in parts)

    if literal:
        assert find_needle(literal, redacts=True).decode() in hidden


@pytest.mark.parametrize(
    ("literal", "redacts", "needle"),
    [
        ("def main(", True, b"def main("),
        ("items[0]", True, b"items[0]"),
        ("] = items[", True, b" = items"),
        ("[s] x", False, b"[s] x"),
        ("GitHub", True, b""),
        ("\ufffd", False, b""),
    ],
)
def test_the_needle_is_all_of_most_literals(literal: str, redacts: bool, needle: bytes) -> None:
    assert find_needle(literal, redacts=redacts) == needle
