"""Embedders that other packages declare in the entry point group ``abilities.embedders``."""

from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from abilities.helpers.embedder import EMBED_SECONDS, Embedder, EmbedderThread
from abilities.helpers.memory.meaning import RankingByMeaning

GROUP = "abilities.embedders"
"""The entry point group; each entry point is an embedder, or makes one without arguments."""


def open_ranking(embedder: Embedder | str) -> RankingByMeaning:
    """Return the ranking by an embedder, or by that of an entry point.

    Raises ValueError if no entry point has this name, and TypeError for what is no embedder.
    """
    if isinstance(embedder, str):
        return RankingByMeaning(open_embedder(embedder))

    _check(embedder)
    return RankingByMeaning(EmbedderThread(lambda: embedder))


def open_embedder(name: str, seconds: float = EMBED_SECONDS) -> EmbedderThread:
    """Return an embedder by the name of its entry point, with the seconds that it has for a call.

    It is loaded when it is first used. Raises ValueError if none has this name.
    """
    # Sorted, so that the same one is used on every machine if two packages claim a name.
    points = sorted(entry_points(group=GROUP), key=_get_position)
    for point in points:
        if point.name == name:
            return EmbedderThread(partial(_load, point), seconds)

    installed = ", ".join(dict.fromkeys(point.name for point in points)) or "none"
    raise ValueError(f"embedder {name!r} is not installed; installed are: {installed}")


def _get_position(point: EntryPoint) -> tuple[str, str]:
    return point.name, point.value


def _load(point: EntryPoint) -> Embedder:
    """Return the embedder of an entry point. Raises TypeError, and whatever foreign code raises."""
    loaded: object = point.load()

    # A class has the attribute too, but is called to make an embedder.
    if isinstance(loaded, type) or (callable(loaded) and not hasattr(loaded, "embed")):
        loaded = loaded()

    _check(loaded)
    return cast(Embedder, loaded)


def _check(embedder: object) -> None:
    if not callable(getattr(embedder, "embed", None)):
        raise TypeError("an embedder must have a method 'embed'")
