"""Changes to a client's files: the server, and hooks by which the model gets memories unasked."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType

from abilities.clients import jsonc
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
from abilities.settings import split_names

_OUR_COMMAND = re.compile(
    r"\babilities'? (?:hook [A-Za-z]+|catch-up(?: --max-tokens \d+)?) \|\| exit 1$"
)
"""A command of this version, or of one before it."""

_MAX_PARENTS = 2
"""The most objects or tables around what is put into a file."""


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


@dataclass(frozen=True)
class ServerChange:
    """A server in the configuration of a client. Methods raise Unusable for a text of another form.

    ``put`` returns the text with the change, and ``remove`` the text without it and without up to
    ``prune`` parents that are empty then.
    """

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
        shaped = shape_entry(self.client, self.entry, self._get(text))
        changed: str = self._editor.put(text, self.client.keys, shaped)
        return changed

    def read_back(self, text: str) -> ServerEntry:
        """Return the entry of the server in a text."""
        value = as_object(self._get(text))
        assert value is not None, "the text has the server"
        return read_entry(value)

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the server."""
        left: str = self._editor.remove(text, self.client.keys, prune)
        return left

    @property
    def _editor(self) -> ModuleType:
        if self.client.format == "json":
            return jsonc

        # Needs the TOML editor, an optional dependency.
        from abilities.clients import toml_edit

        return toml_edit

    def _get(self, text: str) -> object:
        return self._editor.get(text, self.client.keys)


@dataclass(frozen=True)
class HooksChange:
    """The hooks of a client, and the program that answers them; used as a `ServerChange`."""

    client: Client
    program: str = ""

    @property
    def _matchers(self) -> Mapping[str, str | None]:
        return {} if self.client.hooks is None else self.client.hooks.matchers

    def is_in(self, text: str) -> bool:
        """Return whether the text has any of the hooks."""
        return any(_find_hooks(text, event) for event in self._matchers)

    def put(self, text: str) -> str:
        """Return the text with all hooks."""
        for event, matcher in self._matchers.items():
            command = format_hook(self.program, event)
            found = _find_hooks(text, event)
            if [known for _, known in found] == [command]:
                continue

            for index, _ in reversed(found):
                text = jsonc.remove(text, ("hooks", event), 0, index)

            hook: JsonObject = {"hooks": [{"type": "command", "command": command}]}
            if matcher is not None:
                hook = {"matcher": matcher, **hook}
            text = jsonc.append(text, ("hooks", event), hook)

        return text

    def remove(self, text: str, prune: int) -> str:
        """Return the text without the hooks."""
        # In reverse, so that the object of all events is pruned with the last event, if at all.
        for event in reversed(list(self._matchers)):
            for index, _ in reversed(_find_hooks(text, event)):
                text = jsonc.remove(text, ("hooks", event), prune, index)

        return text


FileChange = ServerChange | HooksChange


def build_hooks_change(client: Client, entry: ServerEntry, tools: str | None) -> HooksChange:
    """Return the hooks that answer with the variables of an entry, and with the same tools.

    A server answers for hooks with the same settings as its own.
    """
    variables = dict(entry.variables)
    if tools is not None:
        variables["ABILITIES_TOOLS"] = ",".join(split_names(tools))

    words = list(find_command())
    if variables:
        words = ["env", *(f"{name}={value}" for name, value in variables.items()), *words]

    return HooksChange(client, shlex.join(words))


def put_change(change: FileChange, text: str) -> str:
    """Return the text with a change. Raises Unusable if the client could not read it."""
    # Comes first, because its errors are more precise than those of the check below.
    changed = change.put(text)

    if not change.client.reads_comments:
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
    has_original = False
    for backup in backups:
        with suppress(Unusable):
            if change.is_in(backup):
                continue

            has_original = True
            for prune in range(_MAX_PARENTS + 1):
                if _squeeze(change.remove(text, prune)) == _squeeze(backup):
                    return backup

    left = change.remove(text, _MAX_PARENTS)
    return left if has_original or _squeeze(left) else None


def _squeeze(text: str) -> str:
    """Return the text without the space that a removal does not restore: in empty objects."""
    squeezed = re.sub(r"\{\s*\}", "{}", text).strip()
    return "" if squeezed == "{}" else squeezed


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
