"""Search a root for files that look like secrets although agents may read them."""

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from abilities.declarations.refusals import Refused
from abilities.helpers.files.confinement import DIRECTORY_FLAGS, MAX_COMPONENTS, Policy, open_file
from abilities.helpers.files.deny import fold
from abilities.helpers.files.file_walk import read_kinds
from abilities.helpers.files.redaction import find_secrets
from abilities.helpers.files.window import read_piece
from abilities.helpers.text import WHOLE

MAX_CHARS = 100_000
"""Characters of a file that are searched, from its start."""

_WORDS = re.compile(r"[^\W_]+")

_HINTS = frozenset(
    (
        "apikey", "apikeys", "credential", "credentials", "creds", "keystore", "passphrase",
        "passwd", "password", "passwords", "privatekey", "privkey", "pwd", "secret", "secrets",
        "token", "tokens",
    )
)  # fmt: skip
_KEY_ENDINGS = frozenset((".asc", ".der", ".gpg", ".pgp"))

# Files with these words in their names are written for people: sources, documents, examples.
_ORDINARY_WORDS = frozenset(
    (
        "adoc", "bash", "c", "cc", "clj", "cpp", "cs", "css", "dart", "erl", "ex", "exs", "fs",
        "go", "h", "hpp", "hs", "html", "ipynb", "java", "js", "jsx", "kt", "less", "lua", "m",
        "md", "mdx", "mjs", "ml", "pdf", "php", "pl", "png", "proto", "py", "pyc", "pyi", "r", "rb",
        "rs", "rst", "scala", "scss", "sh", "sql", "svelte", "svg", "swift", "ts", "tsx", "vue",
        "example", "examples", "sample", "template",
    )
)  # fmt: skip

Stop = Literal["files", "chars", "time"]


class SearchLimits(NamedTuple):
    """The bounds of a search: files, characters of their contents, and seconds."""

    files: int = 50_000
    chars: int = 256_000_000
    seconds: float = 60


DEFAULT_LIMITS = SearchLimits()


class ExposedFile(NamedTuple):
    """A file that may be read and looks like a secret.

    ``kinds`` are the kinds of secrets in its content; if there are none, only its name is a hint.
    """

    source: str
    path: str
    kinds: tuple[str, ...]


@dataclass
class SecretSearch:
    """A search through one root after the other, until a limit is reached.

    ``report`` is called with 1 per file.
    """

    policy: Policy
    report: Callable[[float], None]
    limits: SearchLimits = DEFAULT_LIMITS
    found: list[ExposedFile] = field(default_factory=list[ExposedFile])
    files: int = 0
    chars: int = 0
    stopped_by: Stop | None = None

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.limits.seconds
        # The check before each disk access does nothing: a person waits, however long it takes.
        self._own = self.policy.own.refresh(lambda _: None).identities

    def search(self, source: str, root: int) -> None:
        """Search beneath a root, an open directory; ``source`` is its name."""
        for path in self._list_paths(root, "", 1):
            if self.files >= self.limits.files:
                self.stopped_by = "files"
                return

            if self.chars >= self.limits.chars:
                self.stopped_by = "chars"
                return

            if time.monotonic() > self._deadline:
                self.stopped_by = "time"
                return

            text = self._read_text(root, path)
            if text is None:
                continue

            self.files += 1
            self.chars += len(text)
            self.report(1)

            kinds = tuple(sorted({secret.kind for secret in find_secrets(text)}))
            if kinds or hints_at_secret(path):
                self.found.append(ExposedFile(source, path, kinds))

    def _list_paths(self, root: int, folder: str, depth: int) -> Iterator[str]:
        """Yield the paths of files and links beneath a folder that are not denied.

        A folder that cannot be read, or that is too large to be listed, counts as empty.
        """
        try:
            descriptor = os.open(folder or ".", DIRECTORY_FLAGS, dir_fd=root)
        except OSError:
            return

        try:
            kinds = read_kinds(descriptor) or {}
        except Refused:
            return
        finally:
            os.close(descriptor)

        for name, kind in sorted(kinds.items()):
            path = folder + name
            if kind == "folder":
                path += "/"
            if kind == "other" or self.policy.deny.denies(path):
                continue

            if kind != "folder":
                yield path
            elif depth < MAX_COMPONENTS:
                yield from self._list_paths(root, path, depth + 1)

    def _read_text(self, root: int, path: str) -> str | None:
        """Return the text at the start of a file; None if it may not be read, or is not text."""
        try:
            opened = open_file(root, path.split("/"), self.policy)
        except Refused:
            return None

        if isinstance(opened, str):
            return None

        descriptor, status = opened
        try:
            if (status.st_dev, status.st_ino) in self._own:
                return None
            return read_piece(descriptor, status.st_size, WHOLE, MAX_CHARS, lambda: None).text
        except (Refused, OSError):
            return None
        finally:
            os.close(descriptor)


def hints_at_secret(path: str) -> bool:
    """Return whether the name of a file or of its folder hints at a secret.

    Sources, documents and examples never do, because they are only about secrets.

    >>> hints_at_secret("deploy/db-password.txt"), hints_at_secret("src/token_count.ts")
    (True, False)
    """
    names = fold(path).split("/")
    words = set(_WORDS.findall(names[-1]))
    if words & _ORDINARY_WORDS:
        return False

    if os.path.splitext(names[-1])[1] in _KEY_ENDINGS:
        return True

    folder_words = _WORDS.findall("/".join(names[-2:-1]))
    return not _HINTS.isdisjoint(words.union(folder_words))
