"""Changes to a client's files: the server, and hooks by which the model gets memories unasked."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

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
from abilities.clients.table import Client, Hooks
from abilities.declarations.values import JsonObject, as_object
from abilities.settings import split_names

_OUR_COMMAND = re.compile(
    r"\babilities'? (?:hook [A-Za-z]+|catch-up(?: --max-tokens \d+)?) \|\| exit 1$"
)
"""A command of this version, or of one before it."""


def format_hook(program: str, event: str) -> str:
    """Return the command that answers an event; ``program`` runs `abilities`.

    The hook exits with 1 if the program cannot be started, because clients take 2 for a refusal.
    """
    return f"{program} hook {event} || exit 1"


def is_our_hook(command: str) -> bool:
    """Return whether a hook's command is ours, of this or another installation.

    >>> is_our_hook("/opt/venv/bin/abilities hook PreToolUse || exit 1")
    True
    """
    return _OUR_COMMAND.search(command) is not None


class FileChange(Protocol):
    """A change that can be put into the text of a file and removed from it.

    All methods raise Unusable if the text does not have the expected form.
    """

    def is_in(self, text: str) -> bool:
        """Return whether the text contains the change, in any version."""
        ...

    def put(self, text: str) -> str:
        """Return the text with the change, or the same text if it has it already."""
        ...

    def repeat(self, source: str, text: str) -> str:
        """Return the text with the change as it is in a source."""
        ...

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the change, and without up to ``prune`` parents left empty."""
        ...

    def count_missing_parents(self, text: str) -> int:
        """Return the number of parents that `put` would add to a text."""
        ...


@dataclass(frozen=True)
class ServerChange:
    """A server in the configuration of a client."""

    client: Client
    entry: ServerEntry

    def is_in(self, text: str) -> bool:
        """Return whether the text has the server. Raises Unusable if another one has its name."""
        value = self._get(text)
        if value is not None and not is_ours(value):
            name = ".".join(self.client.keys)
            raise Unusable(f"{name} is another server; rename or remove it first")

        return value is not None

    def put(self, text: str) -> str:
        """Return the text with the server. Other fields of an old entry stay."""
        self.is_in(text)
        return self._put(text, shape_entry(self.client, self.entry, self._get(text)))

    def repeat(self, source: str, text: str) -> str:
        """Return the text with the server as it is in a source."""
        value = as_object(self._get(source))
        assert value is not None, "the source has the server"
        return self._put(text, value)

    def read_back(self, text: str) -> ServerEntry:
        """Return the entry of the server in a text."""
        value = as_object(self._get(text))
        assert value is not None, "the text has the server"
        return read_entry(value)

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the server."""
        if self.client.format == "toml":
            return toml_edit.remove(text, self.client.keys, prune)

        return jsonc.remove(text, self.client.keys, prune)

    def count_missing_parents(self, text: str) -> int:
        """Return how many objects or tables around the server are missing in a text."""
        keys = self.client.keys
        parents = [self._get(text, keys[:depth]) for depth in range(1, len(keys))]
        return parents.count(None)

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
    """The hooks of a client: the events with their matchers, and the program that answers them."""

    matchers: Mapping[str, str | None]
    program: str = ""

    def is_in(self, text: str) -> bool:
        """Return whether the text has any of the hooks."""
        return any(_find_hooks(text, event) for event in self.matchers)

    def put(self, text: str) -> str:
        """Return the text with all hooks."""
        for event in self.matchers:
            text = self._put_hook(text, event, format_hook(self.program, event))

        return text

    def repeat(self, source: str, text: str) -> str:
        """Return the text with the hooks as they are in a source."""
        for event in self.matchers:
            for _, command in _find_hooks(source, event):
                text = self._put_hook(text, event, command)

        return text

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the hooks."""
        # In reverse, so that the object of all events is pruned with the last event, if at all.
        for event in reversed(list(self.matchers)):
            for index, _ in reversed(_find_hooks(text, event)):
                text = jsonc.remove(text, ("hooks", event), prune, index)

        return text

    def count_missing_parents(self, text: str) -> int:
        """Return 2 if a text has no hooks at all, 1 if it has none of one event, or else 0."""
        if jsonc.get(text, ("hooks",)) is None:
            return 2

        return int(any(jsonc.get(text, ("hooks", event)) is None for event in self.matchers))

    def _put_hook(self, text: str, event: str, command: str) -> str:
        found = _find_hooks(text, event)
        if [known for _, known in found] == [command]:
            return text

        for index, _ in reversed(found):
            text = jsonc.remove(text, ("hooks", event), 0, index)

        hook: JsonObject = {"hooks": [{"type": "command", "command": command}]}
        matcher = self.matchers[event]
        if matcher is not None:
            hook = {"matcher": matcher, **hook}

        return jsonc.append(text, ("hooks", event), hook)


def build_hooks_change(hooks: Hooks, entry: ServerEntry, tools: str | None) -> HooksChange:
    """Return the hooks that answer with the variables of an entry, and with the same tools.

    A server answers for hooks with the same settings as its own.
    """
    variables = dict(entry.variables)
    if tools is not None:
        variables["ABILITIES_TOOLS"] = ",".join(split_names(tools))

    words = list(find_command())
    if variables:
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), *words]

    return HooksChange(hooks.matchers, shlex.join(words))


def put_change(change: FileChange, text: str, *, reads_comments: bool) -> str:
    """Return the text with a change. Raises Unusable if the client could not read it."""
    # Comes first, because its errors are more precise than those of the check below.
    changed = change.put(text)

    if not reads_comments:
        try:
            json.loads(text.removeprefix(BOM) or "{}")
        except json.JSONDecodeError as error:
            problem = "this client reads neither comments nor trailing commas"
            raise Unparsable(error.lineno, problem) from None

    return changed


def undo_change(change: FileChange, text: str, backups: Sequence[str]) -> str | None:
    """Return the text as it was before a change, or None if there was no file.

    ``backups`` are earlier versions of the text, the newest first. If nothing else has changed
    since one of them, the result is that backup, byte for byte.
    """
    originals: list[str] = []
    for backup in backups:
        with suppress(Unusable):
            if not change.is_in(backup):
                originals.append(backup)

    for original in originals:
        if change.repeat(text, original) == text:
            return original

    if not originals:
        if change.repeat(text, "") == text:
            return None
        return change.remove(text, 0)

    return change.remove(text, change.count_missing_parents(originals[0]))


def _find_hooks(text: str, event: str) -> list[tuple[int, str]]:
    """Return the positions and commands of our hooks in the list of an event.

    An element with several hooks is not ours, even if one of them is.
    """
    found: list[tuple[int, str]] = []

    for index, matcher in enumerate(as_list(jsonc.get(text, ("hooks", event)))):
        hooks = as_list((as_object(matcher) or {}).get("hooks"))
        if len(hooks) == 1:
            command = str((as_object(hooks[0]) or {}).get("command"))
            if is_our_hook(command):
                found.append((index, command))

    return found
