"""Prompts: what a person may ask an agent to do with its memory, and their arguments."""

from typing import Annotated

from pydantic import Field

from abilities.declarations.fields import Arguments
from abilities.declarations.limits import MAX_CONTENT_CHARS, MAX_PATH_CHARS, MAX_QUESTION_CHARS
from abilities.declarations.memory import Text


class RecallPromptInput(Arguments):
    """Arguments of the prompt `recall`."""

    question: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION_CHARS), Text] = Field(
        description="What you want to know."
    )


class RememberPromptInput(Arguments):
    """Arguments of the prompt `remember`."""

    subject: Annotated[str, Field(max_length=MAX_CONTENT_CHARS), Text] = Field(
        default="",
        description="What to remember, or the key of a memory to bring up to date; "
        "default this conversation.",
    )


class ReadPromptInput(Arguments):
    """Arguments of the prompt `read`."""

    path: Annotated[str, Field(min_length=1, max_length=MAX_PATH_CHARS), Text] = Field(
        description="The file, or lines of it, such as src/app.py#L10-L40."
    )


class CatchUpPromptInput(Arguments):
    """Arguments of the prompt `catch_up`: there are none."""
