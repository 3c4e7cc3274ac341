"""Tokens: who may call a server, for which namespace, to read or to write. Only hashes are kept.

A token is ``abl_ID_SECRET`` with a secret of 256 random bits, which nobody can guess: a plain
SHA-256 hides it as well as a slow hash would. The prefix lets secret scanners find a leaked token.
"""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from abilities.declarations.memory import NAMESPACE
from abilities.declarations.model import Model
from abilities.declarations.values import utc_now
from abilities.helpers.durable import AtomicFile

Scope = Literal["read", "write"]

_TOKEN = re.compile(r"abl_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_IMPOSSIBLE_HASH = "0" * 64


class Token(Model):
    """What is kept of a token; ``sha256`` is the hash of its secret in hexadecimal."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    namespace: Annotated[str, Field(pattern=f"^{NAMESPACE}$")]
    scope: Scope
    created_at: str
    label: Annotated[str, Field(max_length=100, description="Who has it.")] = ""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


_TOKENS = TypeAdapter(list[Token])


class _FileState(NamedTuple):
    """What differs when a file was replaced or changed."""

    inode: int
    modified_ns: int
    size: int


class TokenFile:
    """The tokens of a server, in a JSON file of their own, which is read again after every change.

    Methods raise ValueError if the file exists but cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: _FileState | None = None
        self._tokens: dict[str, Token] = {}

    def tokens(self) -> list[Token]:
        """Return the tokens, oldest first; none if there is no file. Raises ValueError."""
        return list(self._read().values())

    def find(self, text: str) -> Token | None:
        """Return the token that a caller sent; None for any other text. Raises ValueError.

        Every text takes the same comparison, in constant time, so that the time says nothing about
        which ids exist or how much of a secret is right.
        """
        tokens = self._read()
        parts = _TOKEN.fullmatch(text)
        token = tokens.get(parts[1]) if parts else None

        secret = parts[2] if parts else ""
        expected_hash = token.sha256 if token else _IMPOSSIBLE_HASH
        is_same = hmac.compare_digest(_hash_secret(secret), expected_hash)

        return token if is_same else None

    def add(self, namespace: str, scope: Scope, label: str = "") -> tuple[Token, str]:
        """Add a token, and return it with its text, which is known only now. Raises ValueError."""
        secret = secrets.token_urlsafe(32)

        with self._lock():
            tokens = dict(self._read())
            token = Token(
                id=_choose_id(tokens),
                namespace=namespace,
                scope=scope,
                created_at=utc_now(),
                label=label,
                sha256=_hash_secret(secret),
            )
            self._write([*tokens.values(), token])

        return token, f"abl_{token.id}_{secret}"

    def revoke(self, name: str) -> Token | None:
        """Remove the token with an id, and return it; None if there is none. Raises ValueError."""
        with self._lock():
            tokens = dict(self._read())
            token = tokens.pop(name, None)
            if token is not None:
                self._write(list(tokens.values()))

        return token

    def _read(self) -> dict[str, Token]:
        """Return the tokens by id; the file is parsed only if it changed since the last call."""
        try:
            status = self.path.stat()
            state = _FileState(status.st_ino, status.st_mtime_ns, status.st_size)

            if state != self._state:
                tokens = _TOKENS.validate_json(self.path.read_bytes())
                self._tokens = {token.id: token for token in tokens}
                self._state = state
        except FileNotFoundError:
            self._state = None
            self._tokens = {}
        except (OSError, ValidationError) as error:
            self._state = None
            raise ValueError("the tokens file cannot be read, or holds something else") from error

        return self._tokens

    def _write(self, tokens: list[Token]) -> None:
        with AtomicFile(self.path).open() as file:
            file.write(_TOKENS.dump_json(tokens, indent=2) + b"\n")

    @contextmanager
    def _lock(self) -> Generator[None]:
        """Let one process at a time change the file.

        The lock has a file of its own, because the tokens file is replaced by each change.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_path = self.path.with_name(f"{self.path.name}-lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _choose_id(taken: dict[str, Token]) -> str:
    while True:
        name = secrets.token_hex(4)
        if name not in taken:
            return name


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
