"""Embedders: an application's own, or those that other packages declare as entry points."""

from functools import partial
from importlib.metadata import EntryPoint
from typing import cast

from abilities.helpers.embedder import EMBED_SECONDS, Embedder, EmbedderThread
from abilities.helpers.memory.meaning import RankingByMeaning
from abilities.plugins import list_points

GROUP = "abilities.embedders"
"""The entry point group; each is an embedder, or creates one without arguments."""


def open_ranking(embedder: Embedder | str) -> RankingByMeaning:
    """Return the ranking by an embedder, or by the embedder of an entry point.

    Raises ValueError if no entry point has this name, and TypeError if the object is no embedder.
    """
    if isinstance(embedder, str):
        return RankingByMeaning(open_embedder(embedder))

    _check_embedder(embedder)
    return RankingByMeaning(EmbedderThread(lambda: embedder))


def open_embedder(name: str, seconds: float = EMBED_SECONDS) -> EmbedderThread:
    """Return an embedder by the name of its entry point; ``seconds`` is the timeout of a call.

    It is loaded at its first use. Raises ValueError if no entry point has this name.
    """
    points = list_points(GROUP)
    for point in points:
        if point.name == name:
            return EmbedderThread(partial(_load_embedder, point), seconds)

    installed = ", ".join(dict.fromkeys(point.name for point in points)) or "none"
    raise ValueError(f"embedder {name!r} is not installed; installed are: {installed}")


def _load_embedder(point: EntryPoint) -> Embedder:
    """Return the embedder of an entry point. Raises TypeError and the plugin's exceptions."""
    loaded: object = point.load()

    # A class has the attribute too, but is called to create an embedder.
    if isinstance(loaded, type) or (callable(loaded) and not hasattr(loaded, "embed")):
        loaded = loaded()

    _check_embedder(loaded)
    return cast(Embedder, loaded)


def _check_embedder(embedder: object) -> None:
    if not callable(getattr(embedder, "embed", None)):
        raise TypeError("an embedder must have a method 'embed'")
