"""Write an ability of your own: a typed async function with a decorator.

An application hands it over where it opens. A package offers its abilities to every installation by
naming them in its pyproject.toml::

    [project.entry-points.abilities]
    word_count = "my_package.abilities:word_count"
"""

import asyncio
import tempfile
from pathlib import Path

from abilities import Abilities, Context, Settings, ability


@ability(read_only=True)
async def word_count(context: Context, paths: list[str]) -> dict[str, int]:
    """Count the words of files without reading them yourself."""
    return {path: len((await context.files.read_one(path)).text.split()) for path in paths}


async def main() -> dict[str, int]:
    """Call it; returns the counts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "poem.txt").write_text("roses are red")

        opening = Abilities.open(Settings(workspace_dir=Path(folder)), abilities=[word_count])
        async with opening as abilities:
            answer = await abilities.call("word_count", {"paths": ["poem.txt"]})

        assert answer == {"poem.txt": 3}
        return answer


if __name__ == "__main__":
    print(asyncio.run(main()))
