"""The namespace of a project, which keeps its notes and memories apart from those of others."""

import re
from hashlib import sha256
from pathlib import Path

from abilities.declarations.memory import NAMESPACE
from abilities.settings import HOME

NOTES = HOME / "projects" / "{namespace}"
"""Where the notes of projects are, each in the folder of its namespace."""

_SHARED = "default"
"""The namespace of whatever names none."""

_MAX_CHARS = 100


def name_namespace(project: Path) -> str:
    """Return the namespace for a project's folder: its name.

    A name that cannot be a namespace keeps the characters that may be in one, followed by a part of
    its SHA-256, so that different names stay different.

    >>> name_namespace(Path("/home/ada/compiler")), name_namespace(Path("/home/ada/my notes"))
    ('compiler', 'my-notes-f30ac2b5')
    """
    name = project.name
    if name != _SHARED and re.fullmatch(NAMESPACE, name):
        return name

    plain = re.sub(r"[^A-Za-z0-9_.@:+=-]+", "-", name)[:_MAX_CHARS].strip("-")
    digest = sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{plain or 'project'}-{digest}"
