"""The commands that Claude Code runs so that its model knows what earlier sessions left.

What SessionStart prints is context of the model, also after a compaction; what PreCompact prints is
appended to the instructions for the summary (https://code.claude.com/docs/en/hooks).
"""

import re
from typing import Final, Literal, get_args

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
