"""Read many files and many memories in one tool call, each with its own outcome.

>>> import asyncio
>>> from abilities import Abilities, Settings
>>> async def main():
...     async with Abilities.open(Settings()) as abilities:
...         answer = await abilities.call("file_read_bulk", {"paths": ["no-such-file.txt"]})
...         return answer["results"][0]["error"]["code"]
>>> asyncio.run(main())
'NOT_FOUND'
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from abilities.application import Abilities
    from abilities.declarations.fields import Arguments
    from abilities.declarations.refusals import Fault, Record, Refused
    from abilities.declarations.values import Model
    from abilities.decorator import ability
    from abilities.definition import Ability, Context
    from abilities.errors import AbilityError
    from abilities.helpers.files.reader import FileText
    from abilities.helpers.reply.formats import parse_text, render
    from abilities.registry import AbilityRegistry
    from abilities.settings import Settings

__all__ = [
    "Abilities",
    "Ability",
    "AbilityError",
    "AbilityRegistry",
    "Arguments",
    "Context",
    "Fault",
    "FileText",
    "Model",
    "Record",
    "Refused",
    "Settings",
    "ability",
    "parse_text",
    "render",
]

_MODULES = {
    "Abilities": "abilities.application",
    "Ability": "abilities.definition",
    "AbilityError": "abilities.errors",
    "AbilityRegistry": "abilities.registry",
    "Arguments": "abilities.declarations.fields",
    "Context": "abilities.definition",
    "Fault": "abilities.declarations.refusals",
    "FileText": "abilities.helpers.files.reader",
    "Model": "abilities.declarations.values",
    "Record": "abilities.declarations.refusals",
    "Refused": "abilities.declarations.refusals",
    "Settings": "abilities.settings",
    "ability": "abilities.decorator",
    "parse_text": "abilities.helpers.reply.formats",
    "render": "abilities.helpers.reply.formats",
}
"""Where each public name comes from; it is imported when it is first used, because the command line
begins here too and needs few of them."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name. Raises AttributeError for any other."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
