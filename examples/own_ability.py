"""Write an ability of your own: a typed async function with a decorator.

A package offers its abilities to every surface by naming them in its pyproject.toml::

    [project.entry-points.abilities]
    word_count = "my_package.abilities:word_count"
"""

import asyncio
import tempfile
from pathlib import Path

from pydantic import Field

from abilities import (
    Abilities,
    AbilityRegistry,
    Arguments,
    Context,
    FileText,
    Model,
    Settings,
    ability,
)


class WordCountInput(Arguments):
    """What the ability takes."""

    paths: list[str] = Field(
        min_length=1, max_length=25, description="Relative paths of 1 to 25 files."
    )


class WordCountAnswer(Model):
    """What it answers."""

    words: dict[str, int] = Field(
        description="Words by path; files that could not be read are left out."
    )


@ability(
    description="Count the words of up to 25 files without reading them yourself.", read_only=True
)
async def word_count(context: Context, arguments: WordCountInput) -> WordCountAnswer:
    """Count through the shared reader, so that confinement and deny list hold."""
    outcomes = await context.files.read(arguments.paths, max_chars=100_000)
    words: dict[str, int] = {}

    for outcome in outcomes:
        if isinstance(outcome, FileText):
            words[outcome.path] = len(outcome.piece.text.split())

    return WordCountAnswer(words=words)


async def main() -> dict[str, int]:
    """Call it; returns the counts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "poem.txt").write_text("roses are red")

        async with Abilities.open(Settings(workspace_dir=folder)) as abilities:
            registry = AbilityRegistry([*abilities.registry, word_count])
            answer = await registry.call(
                "word_count", {"paths": ["poem.txt", "none"]}, abilities.context
            )

        assert answer == {"words": {"poem.txt": 3}}
        return answer["words"]


if __name__ == "__main__":
    print(asyncio.run(main()))
