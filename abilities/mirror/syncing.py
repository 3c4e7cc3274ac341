"""A run of the mirror: what changed on either side since the last run, and what follows from it."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from abilities.declarations.memory import SCORES, LinkSelector, is_key
from abilities.declarations.refusals import Refused
from abilities.declarations.remember import StoreOperation
from abilities.declarations.values import JsonObject
from abilities.definition import validate_arguments
from abilities.helpers.files.redaction import find_secrets
from abilities.helpers.memory.helper import Outcome, Write, Writer
from abilities.helpers.store.changes import call_patiently
from abilities.helpers.store.history import MemoryName
from abilities.helpers.store.mending import make_key
from abilities.helpers.store.model import StoredMemory
from abilities.helpers.store.protocol import ServableStore
from abilities.mirror import notes
from abilities.mirror.folder import (
    CHANGED,
    SUFFIX,
    UNKNOWN,
    Entry,
    Folder,
    Scan,
    State,
    Status,
    Unusable,
    digest,
    fold,
    make_key_of_path,
    name_file,
)

_AT_ONCE = 50
"""The least number of keys after which changes are stored, and the state is saved."""

_MOST_SAVES = 100

_PAGE = 5_000
"""Memories or changes that are listed at once."""

_ALL_LINKS = 1_000_000

_FORMER_VERSIONS = 50
"""Changes of a memory with whose results a file is compared."""

_PAUSE_SECONDS = 0.2
"""The pause between two looks at both sides."""

_SHORT_PAUSE_SECONDS = 0.05
"""The pause if files are changing, because editors write a file in pieces."""

_MOST_LOOKS = 4
"""Looks after which a folder is mirrored although its files are still changing."""

_LARGEST_SHARE = 10
"""At most one memory of so many is archived in one run because its file is gone."""


class Report:
    """The changes of a run, as kinds and files, and its problems, as files and sentences.

    ``since`` is the number of the last change of a memory that the run has seen.
    """

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []
        self.problems: list[tuple[str, str]] = []
        self.since = 0

    @property
    def counts(self) -> Counter[str]:
        """The numbers of changes by their kind."""
        return Counter(kind for kind, _ in self.changes)


class Mirror(NamedTuple):
    """Makes a folder and the memories of a namespace equal; every run starts from the saved state.

    With ``deletes``, the memories of files that are gone are archived. With ``only_checks``,
    nothing is changed, and the report says what would be.
    """

    folder: Folder
    store: ServableStore
    namespace: str
    deletes: bool = False
    only_checks: bool = False

    async def run(self, scan: Scan | None = None) -> Report:
        """Compare both sides with the state, and let each follow the changes of the other.

        Raises Unusable; Refused if the store does not answer, and a repetition continues.
        """
        run = _Run(self, self.folder.load_state(), scan or self.folder.scan())
        await run.finish()
        return run.report

    async def watch(self) -> AsyncGenerator[Report]:
        """Run whenever a side has changed, and yield the reports, without an end."""
        handled, since = None, -1
        while True:
            scan = self.folder.scan()
            for _ in range(_MOST_LOOKS):
                if scan == handled:
                    break
                await asyncio.sleep(_SHORT_PAUSE_SECONDS)
                previous, scan = scan, self.folder.scan()
                if scan == previous:
                    break

            if scan != handled or await call_patiently(partial(self._has_changed, since)):
                report = await call_patiently(partial(self.run, scan))
                handled, since = scan, report.since
                yield report

            await asyncio.sleep(_PAUSE_SECONDS)

    async def _has_changed(self, since: int) -> bool:
        page = await self.store.read_changes(self.namespace, since, 1)
        return bool(page.changes) or not page.is_complete


class _File(NamedTuple):
    """A file as it was read; the status is None if it does not exist yet."""

    path: str
    data: bytes
    text: str
    status: Status | None


class _Edit(NamedTuple):
    """A change of a memory: "stored", "renamed" or "archived", and the entry of the file."""

    kind: str
    key: str
    write: Write
    entry: Entry


class _Run:
    """One run.

    ``_claims`` are the paths of files by their keys, ``_changed`` the keys whose files differ from
    the state, and ``_blocked`` the files that are left alone. ``_live`` are the versions of the
    memories that are not archived, and ``_feed`` the last actions since the last run by id.
    """

    def __init__(self, mirror: Mirror, state: State, scan: Scan) -> None:
        self.report = Report()
        self._mirror = mirror
        self._store = mirror.store
        self._namespace = mirror.namespace
        self._state = state
        self._entries = state.entries
        self._files = scan.files
        self._paths = {fold(path): path for path in (*scan.files, *scan.unusable)}
        self._blocked = set(scan.unusable)
        self.report.problems += [*scan.unusable.items()]
        for path in scan.conflicts:
            self._report(path, "It lost against the store; merge what it says, and remove it.")

        self._claims: dict[str, str] = {}
        self._changed: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._live: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._former_paths = {entry.id: entry.path for entry in state.entries.values()}
        self._feed: dict[str, str] = {}
        self._edits: list[_Edit] = []
        self._removals: list[str] = []

    async def finish(self) -> None:
        """Do everything, and save the state."""
        await self._read_store()
        self._claim_files()
        await self._rename_memories()
        self._index_names()

        is_different = self._changed | (self._live.keys() ^ self._claims.keys())
        for key, entry in self._entries.items():
            is_relinked = self._feed.get(entry.id) == "relinked"  # has kept its version
            is_same = self._live.get(key) == entry.version and key in self._claims
            means_other = any(self._find_named(name) != it for name, it in entry.names.items())
            if is_relinked or not is_same or means_other:
                is_different.add(key)

        missing = self._choose_archived()
        await self._store_edits()
        keys = sorted(is_different - missing)
        step = max(_AT_ONCE, len(keys) // _MOST_SAVES)
        for start in range(0, len(keys), step):
            for key in keys[start : start + step]:
                try:
                    await self._settle(key)
                except Unusable as error:
                    self._report(self._claims.get(key, key), str(error))
            await self._store_edits()
            self._save(self._state)

        for key in self._removals:
            path = self._claims[key]
            try:
                if not self._mirror.only_checks:
                    self._mirror.folder.remove(path, self._files[path])
            except Unusable as error:
                self._report(path, str(error))
            else:
                self.report.changes.append(("removed", path))
                self._entries.pop(key, None)

        latest = await self._store.read_latest_changes(self._namespace, None, 1)
        last = [(one.version, one.made_at) for one in latest]
        self._save(State(self._entries, self.report.since, *last))

    def _save(self, state: State) -> None:
        if not self._mirror.only_checks:
            self._mirror.folder.save_state(state)

    def _report(self, path: str, words: str) -> None:
        self.report.problems.append((path, words))

    def _block(self, path: str, words: str) -> None:
        self._report(path, words)
        self._blocked.add(path)

    async def _read_store(self) -> None:
        """Note what the store has.

        The entries are forgotten if this is not the store of the last run, or is an older copy.
        """
        since, (number, made_at) = self._state.since, self._state.last
        latest = await self._store.read_latest_changes(self._namespace, number + 1, 1)
        is_other = any(one.version == number and one.made_at != made_at for one in latest)
        has_more = True
        while has_more:
            page = await self._store.read_changes(self._namespace, since, _PAGE)
            self._feed.update((change.id, change.action) for change in page.changes)
            since, has_more = page.next, page.has_more
        if is_other or since < self._state.since:
            self._entries.clear()
        self.report.since = since

        after, has_more = "", True
        while has_more:
            lines = await self._store.list_memories(
                self._namespace, "", after, _PAGE, archived=False
            )
            for line in lines:
                self._live[line.key] = getattr(line, "version", -1)  # a damaged one has none
                after = line.key
            has_more = len(lines) == _PAGE

    def _claim_files(self) -> None:
        """Find the key of each file; known files come first, so that a copy takes no key."""
        known = {entry.path: key for key, entry in self._entries.items()}
        moved = {
            entry.digest: key
            for key, entry in self._entries.items()
            if entry.path not in self._files and entry.path not in self._blocked
        }
        for path in self._blocked & known.keys():
            self._claims[known[path]] = path

        for path in sorted(self._files, key=lambda path: (path not in known, path)):
            key = known.get(path, "")
            if not key or self._entries[key].status != self._files[path]:
                try:
                    key = self._identify(self._read_file(path), key, moved)
                except (Unusable, Refused) as error:
                    self._block(path, error.message if isinstance(error, Refused) else str(error))
                    if key:
                        self._claims[key] = path
                    continue

            if key in self._claims:
                self._block(path, f"It has the key of {self._claims[key]}; give it another one.")
            else:
                self._claims[key] = path

    def _identify(self, file: _File, known: str, moved: dict[str, str]) -> str:
        """Return the key of a file, and note whether the file differs from the state.

        If the key is new, the file may be one that had another key, or was moved.
        """
        said = notes.read_key(notes.parse_note(file.text))
        key = said or make_key_of_path(file.path)
        if not is_key(key):
            raise Refused("invalid_key")
        if key in self._claims:
            return key

        hashed = digest(file.data)
        entry = self._entries.get(key)
        if entry is not None and entry.digest == hashed:
            self._entries[key] = entry._replace(path=file.path, status=file.status or UNKNOWN)
            return key

        self._changed.add(key)
        former = known or ("" if said else moved.get(hashed, ""))
        if entry is None and former:
            self._renamed[former] = key
        return key

    def _read_file(self, path: str) -> _File:
        """Read a file. Raises Unusable."""
        data, status = self._mirror.folder.read(path)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Unusable("It is not UTF-8.") from None
        if notes.is_unmerged(text):
            raise Unusable("Git could not merge it; resolve the marks <<<<<<< and >>>>>>>.")

        return _File(path, data, text, status)

    async def _rename_memories(self) -> None:
        """Rename the memories whose files have a new key, unless they have changed as well."""
        for former, key in self._renamed.items():
            entry = self._entries[former]
            is_free = former not in self._claims and key not in self._live
            if is_free and self._live.get(former) == entry.version:
                arguments = {"key": former, "to": key, "if_version": entry.version}
                self._edits.append(_Edit("renamed", key, Write("update", arguments), entry))
                if self._mirror.only_checks:
                    self._blocked.add(self._claims[key])

        await self._store_edits()

    def _index_names(self) -> None:
        """Index keys by the names that links may use; of equal ones, the nearest to the top."""
        paths = {**dict.fromkeys(self._live, ""), **self._claims}
        ordered = sorted(paths, key=lambda key: (key.count("/"), key))
        for start in (0, -1):
            for key in ordered:
                for name in (paths[key].removesuffix(SUFFIX), key):
                    self._names.setdefault(fold("/".join(name.split("/")[start:])), key)

    def _find_named(self, name: str) -> str:
        """Return the key that a link's name means: a key, a path, or the last part of one."""
        name = name.removesuffix(SUFFIX)
        if name in self._live or name in self._claims:
            return name

        return self._names.get(fold(name)) or make_key(name)

    def _choose_archived(self) -> set[str]:
        """Return the keys whose files are gone and whose memories are archived, or kept as is."""
        missing = {
            key
            for key, entry in self._entries.items()
            if key not in self._claims
            and self._live.get(key) == entry.version
            and fold(entry.path) not in self._paths  # two names may be one to the file system
        }
        if not self._mirror.deletes:
            return set()

        if len(missing) > max(1, len(self._live) // _LARGEST_SHARE):
            words = f"{len(missing)} of {len(self._live)} files are gone; none is archived."
            self._report(str(self._mirror.folder.root), f"{words} At most a tenth is, in one run.")
            return missing

        for key in sorted(missing):
            entry = self._entries[key]
            arguments = {"key": key, "if_version": entry.version}
            self._edits.append(_Edit("archived", key, Write("archive", arguments), entry))
        return missing

    async def _settle(self, key: str) -> None:
        """Make a memory and its file equal. Raises Unusable."""
        path, entry = self._claims.get(key), self._entries.get(key)
        if path in self._blocked:
            return

        stored = await self._read_memory(key)
        is_live = stored is not None and not stored.row.archived
        if path is None:
            if stored and is_live:
                self._bring_file(key, stored)
            else:
                self._entries.pop(key, None)
            return

        file = self._read_file(path)
        edit = self._build_edit(key, file, stored)
        if edit is None:
            return

        is_deleted = stored is None and entry is not None and entry.id in self._feed
        is_behind = is_live
        if entry is not None:
            is_relinked = self._feed.get(entry.id) == "relinked"
            has_changed = stored is not None and stored.row.version != entry.version
            is_behind = is_deleted or has_changed or (is_relinked and key not in self._changed)
        if not is_behind or (stored and is_live and self._compose(stored, file) == file.text):
            self._edits.append(edit)
            return

        is_edited = entry is None or key in self._changed
        if is_edited and (stored is None or not await self._is_former(stored, file)):
            words = "Both sides changed."
            if not self._mirror.only_checks:
                kept = self._mirror.folder.keep_conflict(path, file.data)
                words += f" The file follows the store; its own text is in {kept}."
            self._report(path, words)
            self.report.changes.append(("in conflict", path))

        if stored and is_live:
            self._write(stored, file)
        else:
            self._removals.append(key)

    async def _read_memory(self, key: str) -> StoredMemory | None:
        """Return a memory with all its links, archived or not. Raises Unusable if it is damaged."""
        try:
            return await self._store.read_linked(self._namespace, key, 0, _ALL_LINKS)
        except Refused as error:
            if error.reason == "memory_not_found":
                return None
            if error.reason in ("checksum_mismatch", "invalid_stored_value"):
                raise Unusable(error.message) from None
            raise

    def _compose(self, stored: StoredMemory, file: _File) -> str:
        """Return the text of a memory's file."""
        entry = self._entries.get(stored.row.key)
        former = entry.names.values() if entry else ()
        return notes.write_note(stored, file.text, self._find_named, former)

    async def _is_former(self, stored: StoredMemory, file: _File) -> bool:
        """Return whether a file is as a version since the last run has it, or any if it is new.

        It was written by a run that was killed, or belongs to a state that was lost.
        """
        entry = self._entries.get(stored.row.key)
        name = MemoryName(id=stored.row.id)
        history = await self._store.read_history(self._namespace, name, None, _FORMER_VERSIONS)
        oldest = max(history.earliest, entry.version + 1 if entry else 1)
        for version in dict.fromkeys(each.previous for each in history.entries):
            if version < oldest:
                break
            with suppress(Refused):
                former = await self._store.read_version(self._namespace, name, version)
                if self._compose(former, file) == file.text:
                    return True

        return False

    def _bring_file(self, key: str, stored: StoredMemory) -> None:
        """Write the file of a memory that has none, or none any more. Raises Unusable."""
        entry = self._entries.get(key)
        path = entry.path if entry else name_file(key)
        if self._paths.get(fold(path)) in self._blocked:
            return  # it may be the file of this memory

        if fold(path) in self._paths:
            path = name_file(key, marked=True)
        if fold(path) in self._paths:
            raise Unusable(f"Its file would be {path}, which is another one.")

        # The file of a memory that was renamed keeps what other programs wrote there.
        former = self._former_paths.get(stored.row.id, "")
        text = self._read_file(former).text if former in self._files else ""

        self._paths[fold(path)] = path
        self._write(stored, _File(path, b"", text, None))

    def _write(self, stored: StoredMemory, file: _File) -> None:
        """Write the file of a memory, and store what it says beyond that. Raises Unusable."""
        text = self._compose(stored, file)
        _check_secrets(text)
        if file.status is None or text != file.text:
            self.report.changes.append(("written", file.path))
            file = file._replace(data=text.encode(), text=text)
            if not self._mirror.only_checks:
                status = self._mirror.folder.write(file.path, file.data, file.status)
                file = file._replace(status=status)

        self._entries[stored.row.key] = self._make_entry(file, stored.row.id, stored.row.version)
        edit = self._build_edit(stored.row.key, file, stored)
        if edit is not None:
            self._edits.append(edit)

    def _make_entry(self, file: _File, memory_id: str, version: int) -> Entry:
        names = notes.list_names(notes.parse_note(file.text).content)
        found = {name: self._find_named(name) for name in names}
        status = file.status or UNKNOWN
        return Entry(file.path, memory_id, version, digest(file.data), found, status)

    def _build_edit(self, key: str, file: _File, stored: StoredMemory | None) -> _Edit | None:
        """Return the change that stores a file; None if its memory says the same already.

        Raises Unusable for a file that is refused.
        """
        _check_secrets(file.text)
        present: JsonObject = {"links": {}, "archived": 1}
        if stored is not None:
            present = notes.describe_memory(stored) | {"archived": stored.row.archived}

        try:
            said = notes.read_values(notes.parse_note(file.text), self._find_named)
            said["key"] = key
            links = notes.list_mentions(said["content"], self._find_named)
            links.update(said.pop("links"))
            if said["expires_at"] == present.get("expires_at"):
                del said["expires_at"]  # it may be in the past
            if "memory_score" in present:
                said.setdefault("memory_score", SCORES[said["importance"]])

            added = sorted(links.items() - present["links"].items())
            changed = [{"term": "", **link.to_data()} for _, link in added]
            arguments = {"op": "store", **said, "links": changed}
            operation = validate_arguments(StoreOperation, arguments)
        except Refused as error:
            raise Unusable(error.message) from None

        given = operation.explicit_arguments()
        del given["op"]
        removed = [
            LinkSelector(key=name, type=kind) for name, kind in present["links"] - links.keys()
        ]
        is_same = all(given[name] == present.get(name) for name in said)
        memory_id, version = (stored.row.id, stored.row.version) if stored else ("", 0)
        entry = self._make_entry(file, memory_id, version)
        if is_same and not added and not removed and not present["archived"]:
            self._entries[key] = entry
            return None

        given |= {"remove_links": removed, "if_version": version}
        return _Edit("stored", key, Write("store", given), entry)

    async def _store_edits(self) -> None:
        """Make the changes of memories that were collected."""
        edits, self._edits = self._edits, []
        outcomes: list[Outcome | None] = [None] * len(edits)
        writer = Writer(self._namespace, self._store, "mirror")
        if edits and not self._mirror.only_checks:
            outcomes = [*await writer.remember([edit.write for edit in edits], atomic=False)]

        for edit, outcome in zip(edits, outcomes, strict=True):
            if isinstance(outcome, Refused):
                is_late = outcome.reason in ("memory_not_found", "version_conflict")
                self._report(edit.entry.path, CHANGED if is_late else outcome.message)
                continue
            if isinstance(outcome, Exception):
                raise outcome

            self.report.changes.append((edit.kind, edit.entry.path))
            entry = edit.entry
            if outcome is not None:
                entry = entry._replace(id=outcome.id, version=outcome.version)
            if edit.kind != "stored":
                del self._entries[edit.write.arguments["key"]]
                del self._live[edit.write.arguments["key"]]
            if edit.kind != "archived":
                self._entries[edit.key] = entry
                self._live[edit.key] = entry.version


def _check_secrets(text: str) -> None:
    """Raise Unusable with the place of the first secret in a text."""
    for secret in find_secrets(text):
        line = text.count("\n", 0, secret.start) + 1
        raise Unusable(f"Line {line} has what looks like a secret: {secret.kind}.")
