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

from abilities.application import Abilities
from abilities.declarations.faults import Fault, Refused
from abilities.declarations.fields import Arguments
from abilities.declarations.model import Model
from abilities.declarations.records import Record
from abilities.definition import Ability, Context, ability
from abilities.errors import AbilityError
from abilities.helpers.files.file_text import FileText
from abilities.helpers.reply.render import render
from abilities.helpers.reply.text import parse_text
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
