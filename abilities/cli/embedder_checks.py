"""What `abilities doctor` checks of the embedder, if one is set."""

from abilities.cli.diagnosis import Diagnosis
from abilities.cli.stdout import divert_stdout
from abilities.settings import Settings

CHECK_SECONDS = 60.0
"""How long an embedder may take here: it may load a model first."""


async def check_embedder(settings: Settings) -> list[Diagnosis]:
    """Say whether the embedder answers."""
    if not settings.embedder:
        return []

    # Imported here, because few use it.
    from abilities.embedders import open_embedder
    from abilities.helpers.embedder import Comparison, EmbedderFailed

    try:
        embedder = open_embedder(settings.embedder, CHECK_SECONDS)
    except ValueError as error:
        mend = "install the package that declares it, or correct the setting"
        return [Diagnosis("fails", "embedder", str(error), mend)]

    try:
        with divert_stdout():
            await embedder.compare([Comparison("a question", ["an answer"])])
    except EmbedderFailed as error:
        mend = "until it answers, recall ranks by words alone"
        return [Diagnosis("fails", "embedder", f"{settings.embedder} fails: {error}", mend)]
    finally:
        embedder.close()

    return [Diagnosis("ok", "embedder", f"{settings.embedder} answers")]
