"""Embedders: by model2vec or fastembed, of other packages, or an application's own.

Of the built-in ones, models are only downloaded by `download_model`: a server that starts fetches
nothing.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from abilities.errors import Extra, format_install, is_installed
from abilities.plugins import list_points

if TYPE_CHECKING:
    from abilities.helpers.embedder import Embedder
    from abilities.helpers.memory.meaning import VectorMeaning

GROUP = "abilities.embedders"
"""The entry point group; each is an embedder, or creates one without arguments."""

DOWNLOAD = "abilities doctor --download"
"""The command that downloads the model of the settings."""

FASTEMBED_CACHE = "~/.cache/fastembed"
"""The models of fastembed, unless FASTEMBED_CACHE_PATH says otherwise: its default is /tmp."""


def open_meaning(embedder: "Embedder | str", seconds: float | None = None) -> "VectorMeaning":
    """Return the comparison by an embedder, or by the one that a setting names.

    The models are loaded at the first use. ``seconds`` is the timeout of a question.

    Raises ValueError for an embedder that is not installed or whose model is not here, and
    TypeError for an object that is no embedder.
    """
    if not find_spec("numpy"):
        raise ValueError(f"embedder: it needs numpy; run: {format_install('semantic')}")

    # Imported here, because they import numpy.
    from abilities.helpers.embedder import Vectorizer
    from abilities.helpers.memory.meaning import EMBED_SECONDS, VectorMeaning

    if isinstance(embedder, str):
        load = _find_loader(embedder)
    else:
        _check_embedder(embedder)

        def load() -> "Embedder":
            return embedder

    return VectorMeaning(Vectorizer(load), seconds or EMBED_SECONDS)


def download_model(embedder: str) -> None:
    """Download the model of a built-in embedder. Raises ValueError if that fails."""
    _find_loader(embedder, download=True)


def _find_loader(embedder: str, *, download: bool = False) -> "Callable[[], Embedder]":
    """Return the function that loads an embedder. Raises ValueError as `open_meaning` does."""
    kind, _, model = embedder.partition(":")
    find = _BUILT_IN.get(kind)
    if find is not None and model:
        extra: Extra = "fastembed" if kind == "fastembed" else "semantic"
        if not is_installed(extra):
            command = format_install(extra)
            raise ValueError(f"embedder: {kind} is not installed; run: {command}")

        try:
            return find(model, download)
        except ValueError as error:
            raise ValueError(f"embedder {embedder!r}: {error}") from None

    points = list_points(GROUP)
    for point in points:
        if point.name == embedder:
            return partial(_load_point, point)

    installed = [f"{name}:MODEL" for name in _BUILT_IN]
    installed += dict.fromkeys(point.name for point in points)
    raise ValueError(f"embedder {embedder!r} is not installed; there are: {', '.join(installed)}")


def _find_model2vec(model: str, download: bool) -> "Callable[[], Embedder]":
    folder = Path(model).expanduser()
    if folder.is_dir():
        return partial(_Model2Vec, folder)
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise ValueError("there is no such folder")

    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(model, local_files_only=not download))
    except Exception as error:
        raise ValueError(_explain(error, download=download)) from None

    return partial(_Model2Vec, folder)


def _find_fastembed(model: str, download: bool) -> "Callable[[], Embedder]":
    from fastembed import TextEmbedding

    known = [str(each["model"]) for each in TextEmbedding.list_supported_models()]
    if model not in known:
        raise ValueError(f"fastembed has no such model; it has: {', '.join(known)}")

    folder = os.environ.get("FASTEMBED_CACHE_PATH") or str(Path(FASTEMBED_CACHE).expanduser())
    try:
        # Lazily: this finds the files, and the first use loads them.
        found = TextEmbedding(model, folder, lazy_load=True, local_files_only=not download)
    except Exception as error:
        raise ValueError(_explain(error, download=download)) from None

    return partial(_FastEmbed, found)


def _explain(error: Exception, *, download: bool) -> str:
    if download:
        return f"the model cannot be downloaded: {error}"

    return f"the model is not on this machine; run: {DOWNLOAD}"


class _Model2Vec:
    """Static vectors of words, from a folder."""

    def __init__(self, folder: Path) -> None:
        from model2vec import StaticModel

        self._model: Any = StaticModel.from_pretrained(folder)

    def embed(self, texts: Sequence[str]) -> Any:
        return self._model.encode(list(texts))


class _FastEmbed:
    """A small model that onnxruntime runs."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def embed(self, texts: Sequence[str]) -> Any:
        return list(self._model.embed(list(texts)))


_BUILT_IN: "Final[dict[str, Callable[[str, bool], Callable[[], Embedder]]]]" = {
    "model2vec": _find_model2vec,
    "fastembed": _find_fastembed,
}


def _load_point(point: EntryPoint) -> "Embedder":
    """Return the embedder of an entry point. Raises TypeError and the plugin's exceptions."""
    loaded: object = point.load()

    # A class has the attribute too, but is called to create an embedder.
    if isinstance(loaded, type) or (callable(loaded) and not hasattr(loaded, "embed")):
        loaded = loaded()

    _check_embedder(loaded)
    return cast("Embedder", loaded)


def _check_embedder(embedder: object) -> None:
    if not callable(getattr(embedder, "embed", None)):
        raise TypeError("an embedder must have a method 'embed'")
