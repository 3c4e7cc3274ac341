"""The index of paths: which memories are about a file.

A memory is about the paths and patterns that it declares, and, counting less, about the files that
its content names. Each of these is a row under a root: the path itself, or the folder above the
first wildcard of a pattern. So the memories about a file are under its path, its name, and the
folders above it, and a limited number of rows is matched under each.
"""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter

import orjson

from abilities.declarations.limits import MAX_ABOUT, MAX_ABOUT_CHARS, MAX_REMEMBERED
from abilities.declarations.refusals import Refused
from abilities.helpers.files.globs import Glob
from abilities.helpers.store.engine import Columns, Transaction
from abilities.helpers.store.model import IMPORTANCES, Row, StoredMemory
from abilities.helpers.store.reads import read

MOST_MATCHED = 64
"""Rows under each root that are matched with a path, the best of each kind first."""

_SPARE = 3
"""Memories to load beyond those that are shown: some may be damaged, or have just expired."""

_PATTERN, _PATH, _NAMED = "2", "1", "0"
"""The kinds of rows: a pattern with wildcards, a path, and a file that the content names."""

ADD_ABOUT = """
INSERT INTO about (namespace, root, archived, rank, id, place, entry) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
DELETE_ABOUT = "DELETE FROM about WHERE namespace = ? AND id = ?"
_HAS_ANY = "SELECT 1 FROM about WHERE namespace = ? LIMIT 1"
_FIND = f"""
SELECT t.name, (
    SELECT JSON_LIST(b.entry) FROM (
        SELECT a.rank || a.entry AS entry FROM about AS a
        WHERE a.namespace = ? AND a.root = t.name AND a.archived = 0
        ORDER BY a.rank DESC LIMIT {MOST_MATCHED}
    ) AS b
) FROM TEXTS(?) AS t (name) WHERE EXISTS (
    SELECT 1 FROM about AS a WHERE a.namespace = ? AND a.root = t.name AND a.archived = 0
)
"""
_LIST = """
SELECT root, rank || entry, id FROM about WHERE namespace = ? AND archived <= ? AND root = ANY (?)
"""
INDEXED = """(
    SELECT JSON_LIST(b.entry) FROM (
        SELECT a.root || ' ' || a.rank || a.entry AS entry FROM about AS a INDEXED BY about_id
        WHERE a.namespace = m.namespace AND a.id = m.id AND a.archived = m.archived
    ) AS b
)"""
"""SQL of a memory's rows in the index for memories AS m, in any order; see `list_indexed`."""

_WILDCARD = re.compile(r"[*?\[{]")
_TOKEN = re.compile(r"[\w./@+~-]+")
_FILE = re.compile(r"(?:\./)?((?:(?!\.\.?/)[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9})")
_KNOWN = """
c cc cfg conf cpp cs css csv go h hpp html ini java js json jsx kt lock lua md mjs php pl proto ps1
py pyi r rb rs rst scala scss sh sql svg swift tex toml ts tsx txt vue xml yaml yml
"""
_SUFFIXES = frozenset(_KNOWN.split())
"""The suffixes by which a name without a folder is taken for that of a file."""


_Level = tuple[int, int, int]
"""How closely a memory is about a path, also by its pattern; the highest is the closest."""

_Found = tuple[_Level, str, str]
"""How closely a memory is about a path, when it changed, and its key."""


def find_named_files(content: str) -> list[str]:
    """Return the files that a content names, those with a folder first, 10 at most.

    >>> find_named_files("See src/app.py:12 and README.md, e.g. on example.com/a or and/or.")
    ['src/app.py', 'README.md']
    """
    found: dict[str, None] = {}
    for token in _TOKEN.findall(content):
        if "." not in token or len(token) > MAX_ABOUT_CHARS:
            continue

        file = _FILE.fullmatch(token.rstrip(".-/"))
        if file is None:
            continue
        if "/" in file[1] or file[1].rpartition(".")[2].lower() in _SUFFIXES:
            found[file[1]] = None

    return sorted(found, key=lambda path: "/" not in path)[:MAX_ABOUT]


def list_about(row: Row) -> list[Columns]:
    """Return a sound memory's rows in the index, as `ADD_ABOUT` takes them.

    The best of a root have the highest rank, and the place tells the rows of a memory apart. The
    entry is the memory's key and, on a second line, the pattern.
    """
    kinds: list[tuple[str, str, str]] = []
    if row.about != "[]":
        for path in orjson.loads(row.about):
            wildcard = _WILDCARD.search(path)
            if wildcard is None:
                kinds.append((_PATH, path, ""))
            else:
                kinds.append((_PATTERN, path[: wildcard.start()].rpartition("/")[0], path))

    kinds += [(_NAMED, path, "") for path in find_named_files(row.content)]
    recency = f"{IMPORTANCES.index(row.importance)}{row.updated_at} "
    rows: list[Columns] = []
    for place, (kind, root, pattern) in enumerate(kinds):
        entry = f"{row.key}\n{pattern}"
        rows.append((row.namespace, root, row.archived, kind + recency, row.id, place, entry))

    return rows


def list_indexed(row: Row) -> list[str]:
    """Return what `INDEXED` has for a sound memory, in any order."""
    return [f"{root} {rank}{entry}" for _, root, _, rank, _, _, entry in list_about(row)]


async def find_about(
    transaction: Transaction, namespace: str, paths: Sequence[str], now: str
) -> dict[str, list[StoredMemory]] | None:
    """Return the best memories about files that are readable, not archived and not expired.

    It is None if the namespace has no memory about any file. A declared path comes before a
    pattern, a longer pattern before a shorter one, and that before a file named in the content.
    Then the more important, the newer, and the first key come first.
    """
    if not await transaction.fetch(_HAS_ANY, namespace):
        return None

    roots = set[str]().union(*map(_list_roots, paths))
    entries: dict[str, list[str]] = {}
    for root, listed in await transaction.fetch(_FIND, namespace, sorted(roots), namespace):
        entries[root] = orjson.loads(listed)

    best: dict[str, list[str]] = {}
    for path in paths if entries else ():
        found: list[_Found] = []
        for root in entries.keys() & _list_roots(path):
            found += _match(path, root, entries[root])

        found.sort(key=itemgetter(2))
        found.sort(key=itemgetter(0, 1), reverse=True)
        keys = dict.fromkeys(key for _, _, key in found)
        if keys:
            best[path] = list(keys)[: MAX_REMEMBERED + _SPARE]

    keys = dict.fromkeys(key for chosen in best.values() for key in chosen)
    if not keys:
        return {}

    memories: dict[str, StoredMemory] = {}
    for memory in await read(transaction, namespace, list(keys)):
        if isinstance(memory, StoredMemory) and not memory.row.archived:
            row = memory.row
            if not row.expires_at or row.expires_at > now:
                memories[row.key] = memory

    return {
        path: [memories[key] for key in chosen if key in memories][:MAX_REMEMBERED]
        for path, chosen in best.items()
    }


async def list_ids(
    transaction: Transaction, namespace: str, path: str, *, archived: bool
) -> list[str]:
    """Return the ids of all memories about a file."""
    rows = await transaction.fetch(_LIST, namespace, int(archived), sorted(_list_roots(path)))
    return sorted({name for root, entry, name in rows if _match(path, root, [entry])})


def _list_roots(path: str) -> set[str]:
    """Return the roots under which the memories about a file are."""
    folder, _, name = path.rpartition("/")
    roots = {path, name, ""}
    while folder not in roots:
        roots.add(folder)
        folder = folder.rpartition("/")[0]

    return roots


def _match(path: str, root: str, entries: Iterable[str]) -> list[_Found]:
    """Return the memories under a root that are about a path."""
    found: list[_Found] = []
    for entry in entries:
        first, _, pattern = entry.partition("\n")
        moment, _, key = first[1:].partition(" ")
        level: _Level | None = None

        if first.startswith(_NAMED):
            if root in (path, path.rpartition("/")[2]):
                level = (0, int(root == path), 0)
        elif path == (pattern or root):
            level = (2, 0, 0)
        elif pattern:
            if _matches(pattern, path):
                level = (1, len(root), len(pattern))
        elif not root or path.startswith(f"{root}/"):
            level = (1, len(root), 0)

        if level is not None:
            found.append((level, moment, key))

    return found


@lru_cache(maxsize=4_096)
def _parse(pattern: str) -> Glob | None:
    with suppress(Refused):  # its braces may expand to too many patterns
        return Glob(pattern)

    return None


def _matches(pattern: str, path: str) -> bool:
    glob = _parse(pattern)
    return glob is not None and glob.matches(path)
