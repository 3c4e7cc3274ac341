"""The changes to a client's files: a server, and for Claude Code two hooks.

The commands that Claude Code runs so that its model knows what earlier sessions left.

What SessionStart prints is context of the model, also after a compaction; what PreCompact prints is
appended to the instructions for the summary (https://code.claude.com/docs/en/hooks).
"""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

from abilities.clients import jsonc, toml_edit
from abilities.clients.entry import (
    ServerEntry,
    Unparsable,
    Unusable,
    as_list,
    find_command,
    is_ours,
    read_entry,
    shape_entry,
)
from abilities.clients.jsonc import BOM
from abilities.clients.table import Client
from abilities.declarations.values import JsonObject, as_object

HookEvent = Literal["SessionStart", "PreCompact"]

HOOK_EVENTS: Final[tuple[HookEvent, ...]] = get_args(HookEvent)
"""When the hooks run: as a session starts or goes on, and before it is summarized."""

_BEFORE_COMPACTION = (
    "The data below is stored, and is given again after the compaction. Keep in the summary what "
    "it lacks: decisions, preferences, lessons, open tasks."
)

_MAX_TOKENS = 1_900
"""What fits, with the sentence before it, into the 10,000 characters that a hook may print."""

_OUR_COMMAND = re.compile(r"\babilities'? catch-up(?: --max-tokens \d+)? \|\| exit 1$")


def format_hook(event: HookEvent, catch_up: str) -> str:
    """Return the command of a hook, made of the one that prints what there is to know.

    A hook that exits with 2, as `abilities` does for wrong settings, would block the compaction, so
    it exits with 1.
    """
    if event == "PreCompact":
        return f"echo '{_BEFORE_COMPACTION}'; {catch_up} --max-tokens {_MAX_TOKENS} || exit 1"

    return f"{catch_up} || exit 1"


def is_our_hook(command: str) -> bool:
    """Return whether a hook's command is one of ours, in whichever installation."""
    return _OUR_COMMAND.search(command) is not None


class FileChange(Protocol):
    """Something that can be put into a text and taken out again.

    All methods raise Unusable for a text that is not what it should be.
    """

    def is_in(self, text: str) -> bool:
        """Return whether the text holds it, in whichever version."""
        ...

    def put(self, text: str) -> str:
        """Return the text with it; the same text if nothing changes."""
        ...

    def repeat(self, source: str, text: str) -> str:
        """Return another text with what a source holds of it."""
        ...

    def remove(self, text: str, prune: int) -> str:
        """Return the text without it and, if they are empty, without so many parents."""
        ...

    def count_missing_parents(self, text: str) -> int:
        """Return how many parents are made when it is put into a text."""
        ...


@dataclass(frozen=True)
class ServerChange:
    """A server in the configuration of a client."""

    client: Client
    entry: ServerEntry

    def is_in(self, text: str) -> bool:
        """Return whether the text holds a server of this name. Raises Unusable if it is another."""
        value = self._get(text)
        if value is not None and not is_ours(value):
            name = ".".join(self.client.keys)
            raise Unusable(f"{name} is another server; rename or remove it first")

        return value is not None

    def put(self, text: str) -> str:
        """Return the text with the server, which keeps what else an old entry holds."""
        self.is_in(text)
        return self._put(text, shape_entry(self.client, self.entry, self._get(text)))

    def repeat(self, source: str, text: str) -> str:
        """Return another text with the server of a source."""
        value = as_object(self._get(source))
        assert value is not None, "the source holds the server"
        return self._put(text, value)

    def read_back(self, text: str) -> ServerEntry:
        """Return what the client starts, as the text has it."""
        value = as_object(self._get(text))
        assert value is not None, "the text holds the server"
        return read_entry(value)

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the server."""
        if self.client.format == "toml":
            return toml_edit.remove(text, self.client.keys, prune)

        return jsonc.remove(text, self.client.keys, prune)

    def count_missing_parents(self, text: str) -> int:
        """Return how many objects or tables around the server a text lacks."""
        parents = [self.client.keys[:depth] for depth in range(1, len(self.client.keys))]
        return sum(self._get(text, parent) is None for parent in parents)

    def _get(self, text: str, keys: Sequence[str] = ()) -> object:
        if self.client.format == "toml":
            return toml_edit.get(text, keys or self.client.keys)

        return jsonc.get(text, keys or self.client.keys)

    def _put(self, text: str, value: JsonObject) -> str:
        if self.client.format == "toml":
            return toml_edit.put(text, self.client.keys, value)

        return jsonc.put(text, self.client.keys, value)


@dataclass(frozen=True)
class HooksChange:
    """The hooks of Claude Code; ``catch_up`` is the command that prints what there is to know."""

    catch_up: str

    def is_in(self, text: str) -> bool:
        """Return whether the text holds any of the hooks."""
        return any(_find_hooks(text, event) for event in HOOK_EVENTS)

    def put(self, text: str) -> str:
        """Return the text with both hooks."""
        for event in HOOK_EVENTS:
            text = _put_hook(text, event, format_hook(event, self.catch_up))

        return text

    def repeat(self, source: str, text: str) -> str:
        """Return another text with the hooks of a source."""
        for event in HOOK_EVENTS:
            for _, command in _find_hooks(source, event):
                text = _put_hook(text, event, command)

        return text

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the hooks."""
        # The object of all events goes with the last of them, if it goes at all.
        for event in reversed(HOOK_EVENTS):
            for index, _ in reversed(_find_hooks(text, event)):
                text = jsonc.remove(text, ("hooks", event), prune, index)

        return text

    def count_missing_parents(self, text: str) -> int:
        """Return 2 if a text has no hooks at all, 1 if it has none of an event, else 0."""
        if jsonc.get(text, ("hooks",)) is None:
            return 2

        return int(any(jsonc.get(text, ("hooks", event)) is None for event in HOOK_EVENTS))


def build_hooks_change(entry: ServerEntry) -> HooksChange:
    """Return the hooks that run `abilities catch-up` with the variables of an entry."""
    variables = [f"{name}={value}" for name, value in entry.variables.items()]
    words = [*find_command(), "catch-up"]

    if variables:
        words = ["env", *variables, *words]

    return HooksChange(shlex.join(words))


def put_change(change: FileChange, text: str, *, reads_comments: bool) -> str:
    """Return the text with a change. Raises Unusable if the client could not read it."""
    changed = change.put(text)

    # The better explanation comes first: whatever is wrong for every client was said by now.
    if not reads_comments:
        _require_strict_json(text.removeprefix(BOM))

    return changed


def undo_change(change: FileChange, text: str, backups: Sequence[str]) -> str | None:
    """Return the text as it was before a change; None if there was no file.

    ``backups`` are earlier versions of the text, the newest first. If nothing else has changed
    since one of them, the text becomes that backup byte for byte.
    """
    originals = [backup for backup in backups if _is_without(change, backup)]

    for original in originals:
        if change.repeat(text, original) == text:
            return original

    if not originals:
        if change.repeat(text, "") == text:
            return None
        return change.remove(text, 0)

    return change.remove(text, change.count_missing_parents(originals[0]))


def _is_without(change: FileChange, backup: str) -> bool:
    try:
        return not change.is_in(backup)
    except Unusable:
        return False


def _put_hook(text: str, event: str, command: str) -> str:
    found = _find_hooks(text, event)
    if [known for _, known in found] == [command]:
        return text

    for index, _ in reversed(found):
        text = jsonc.remove(text, ("hooks", event), 0, index)

    hook = {"hooks": [{"type": "command", "command": command}]}
    return jsonc.append(text, ("hooks", event), hook)


def _find_hooks(text: str, event: str) -> list[tuple[int, str]]:
    """Return the places and commands of our hooks among those of an event."""
    matchers = as_list(jsonc.get(text, ("hooks", event)))
    found: list[tuple[int, str]] = []
    for index, matcher in enumerate(matchers):
        command = _find_command(matcher)
        if command is not None:
            found.append((index, command))

    return found


def _find_command(matcher: object) -> str | None:
    """Return the command of an element that holds our hook and no other, whatever else it says."""
    hooks = as_list((as_object(matcher) or {}).get("hooks"))
    hook = as_object(hooks[0]) if len(hooks) == 1 else None
    command = str((hook or {}).get("command"))

    return command if is_our_hook(command) else None


def _require_strict_json(text: str) -> None:
    try:
        json.loads(text or "{}")
    except json.JSONDecodeError as error:
        problem = "this client reads neither comments nor trailing commas"
        raise Unparsable(error.lineno, problem) from None
