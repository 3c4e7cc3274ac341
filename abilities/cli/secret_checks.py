"""What `abilities doctor --secrets` says of files that agents may read and that look like secrets.

It names paths and reasons, never what a file holds.
"""

import os
from collections.abc import Collection, Iterator

from abilities.cli.checks import Diagnosis, check_folder
from abilities.cli.progress import show_progress
from abilities.cli.text import escape_text, format_count
from abilities.declarations.faults import Refused
from abilities.declarations.values import has_control_character, has_surrogate
from abilities.helpers.files.redaction import find_secrets
from abilities.helpers.files.roots import Root
from abilities.helpers.files.secret_search import (
    DEFAULT_LIMITS,
    MAX_CHARS,
    ExposedFile,
    SearchLimits,
    SecretSearch,
)
from abilities.settings import Settings

MAX_SHOWN = 100
"""Files that are shown; the others are only counted."""

_LIMITS = {
    "files": "enough files were looked at",
    "chars": "enough text was looked at",
    "time": "it took too long",
}


def check_secrets(settings: Settings, limits: SearchLimits = DEFAULT_LIMITS) -> Iterator[Diagnosis]:
    """Look through both roots, within limits, for what looks like a secret and may be read."""
    with show_progress("Looking for secrets") as progress:
        search = SecretSearch(settings.policy, find_kinds, progress.advance, limits)
        for place in settings.roots:
            folder = check_folder(place)
            if folder.state == "fails":
                yield folder
            else:
                _search_root(search, Root(place.name, place.path))

    # What contents show is surer than what a name hints at.
    found = sorted(search.found, key=lambda file: not file.kinds)
    for file in found[:MAX_SHOWN]:
        yield _diagnose_file(file, is_redacted=settings.policy.redacts)

    yield _summarize(search)


def find_kinds(text: str) -> Collection[str]:
    """Return the kinds of secrets that a text holds."""
    return sorted({secret.kind for secret in find_secrets(text)})


def _search_root(search: SecretSearch, root: Root) -> None:
    """Search a root; one that is gone or not readable has nothing to read."""
    try:
        descriptor = root.open()
    except Refused:
        return

    if descriptor is None:
        return

    try:
        search.search(root.name, descriptor)
    finally:
        os.close(descriptor)


def _diagnose_file(file: ExposedFile, *, is_redacted: bool) -> Diagnosis:
    pattern = _format_pattern(file.path)
    mend = f'if it is one, refuse it: deny = ["...", "{pattern}"]'
    about = f"{file.source} directory"
    path = escape_text(file.path)

    if file.kinds and is_redacted:
        words = f"{path} holds: {', '.join(file.kinds)}; agents read marks in their place"
        return Diagnosis("note", about, words, mend)

    if file.kinds:
        return Diagnosis("unsafe", about, f"{path} holds: {', '.join(file.kinds)}", mend)

    return Diagnosis("note", about, f"{path}: its name hints at a secret", mend)


def _summarize(search: SecretSearch) -> Diagnosis:
    """Say how much was looked at, what was found, and whether all was looked at."""
    words = (
        f"looked at {format_count(search.files, 'file')} that agents may read "
        f"({MAX_CHARS:,} characters of each at most): "
    )
    count = len(search.found)
    if count == 0:
        words += "none looks like a secret"
    elif count == 1:
        words += "1 looks like a secret"
    else:
        words += f"{count:,} look like secrets"

    if count > MAX_SHOWN:
        words += f", of which {MAX_SHOWN} are shown"

    if search.stopped_by is None:
        return Diagnosis("ok", "secrets", words)

    mend = "the rest was not looked at: name a smaller folder with --workspace-dir"
    return Diagnosis("note", "secrets", f"{words}; stopped, {_LIMITS[search.stopped_by]}", mend)


def _format_pattern(path: str) -> str:
    r"""Return a pattern of the deny list that stands for a path, as TOML has it in quotes.

    >>> _format_pattern('keys/a"b'), _format_pattern("!old"), _format_pattern("file:{a,b}")
    ('keys/a?b', '?old', 'file??a,b?')
    """
    pattern = ""
    for char in path:
        is_special = char in '"\\{}' or has_control_character(char) or has_surrogate(char)
        pattern += "?" if is_special else char

    if pattern.startswith("!"):
        pattern = "?" + pattern[1:]
    elif pattern.startswith("file:"):
        pattern = pattern.replace(":", "?", 1)

    return pattern
