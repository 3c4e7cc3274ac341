"""What `abilities doctor` checks of the namespaces that tokens open: their files and memories."""

from collections.abc import Iterator, Mapping

from abilities.cli.diagnosis import Diagnosis
from abilities.cli.file_checks import check_folder
from abilities.cli.text import format_count
from abilities.helpers.files.roots import PLACEHOLDER, RootPlace
from abilities.settings import Settings

MAX_NAMESPACES = 50
"""Namespaces that are examined; a server may have thousands."""

_NEARLY_FULL = 0.9


def check_namespaces(settings: Settings, memories: Mapping[str, int]) -> Iterator[Diagnosis]:
    """Check the folders and the number of memories of each namespace that a token opens.

    ``memories`` counts those of each; it is empty if the store does not answer.
    """
    for namespace, count in sorted(memories.items())[:MAX_NAMESPACES]:
        yield from _check_namespace(settings.for_namespace(namespace), count)

    left = len(memories) - MAX_NAMESPACES
    if left > 0:
        words = f"{format_count(left, 'more namespace')} of tokens not examined"
        yield Diagnosis("ok", "namespaces", words)


def _check_namespace(settings: Settings, count: int) -> Iterator[Diagnosis]:
    about = f"namespace {settings.namespace}"
    own = [root for root in settings.roots if PLACEHOLDER in str(_get_setting(settings, root))]
    present = [root for root in own if root.path.is_dir()]

    for root in present:
        finding = check_folder(root)
        if finding.state != "ok":
            yield finding._replace(about=about)

    words = format_count(count, "memory", "memories")
    missing = [str(root.path) for root in own if root not in present]
    if missing:
        words += f"; no files, because there is no {' and no '.join(missing)}"

    if settings.max_memories is not None and count >= settings.max_memories * _NEARLY_FULL:
        yield Diagnosis(
            "note",
            about,
            f"{words}; max_memories is {settings.max_memories:,}",
            "raise max_memories, or delete memories, before new ones are refused",
        )
    elif missing and not present and not count:
        mend = f"if its name is right, to share files: mkdir -p {missing[0]}"
        yield Diagnosis("note", about, words, mend)
    else:
        yield Diagnosis("ok", about, words)


def _get_setting(settings: Settings, root: RootPlace) -> object:
    return settings.agent_dir if root.name == "agent" else settings.workspace_dir
