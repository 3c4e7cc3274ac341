"""The tokens of a server: each lets a caller use one namespace, within a scope.

A token is ``abl_ID_SECRET``, and only a hash of its secret is kept. The secret has 256 random bits
and cannot be guessed, so a plain SHA-256 hides it as well as a slow hash would. The prefix lets
secret scanners find a leaked token.
"""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter

from abilities.declarations.memory import Namespace, OtherNamespaces
from abilities.declarations.values import Model, has_control_character, has_surrogate, utc_now
from abilities.helpers.durable import AtomicFile

Scope = Literal["read", "write", "purge", "metrics"]
"""The abilities of a token: only reading, all, purging too, or only a server's metrics."""

MAX_FILE_BYTES = 4 * 1024 * 1024
"""The largest tokens file that is read. It has room for more than 15,000 tokens."""

TOKEN_SUFFIXES = ("-lock", ".part")
"""Suffixes of the files beside the tokens file, which exist while it is changed."""

_TOKEN = re.compile(r"abl_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_IMPOSSIBLE_HASH = "0" * 64

_NOT_REGULAR = "the tokens file is not a regular file"
_TOO_LARGE = f"the tokens file is larger than {MAX_FILE_BYTES // 1024 // 1024} MiB"


class Token(Model):
    """A token without its secret, of which only the hash is kept (hexadecimal)."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    namespace: Namespace
    scope: Scope
    created_at: str
    label: Annotated[str, Field(max_length=100, description="Who has it.")] = ""
    tools: Annotated[tuple[str, ...], Field(description="Tools it is offered; () is all.")] = ()
    reads: Annotated[OtherNamespaces, Field(description="Further namespaces that it reads.")] = ()
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @property
    def plain_label(self) -> str:
        """The label for logs and lists, without characters that could steer a terminal."""
        shown = ""
        for char in self.label:
            if has_control_character(char) or has_surrogate(char):
                shown += "\ufffd"
            else:
                shown += char

        return shown


_TOKENS = TypeAdapter(list[Token], config=ConfigDict(defer_build=True))


class _FileState(NamedTuple):
    """The fields of a file's status that change when it is replaced or modified."""

    device: int
    inode: int
    modified_ns: int
    changed_ns: int
    size: int

    @classmethod
    def from_status(cls, status: os.stat_result) -> "_FileState":
        return cls(
            status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
        )


class TokenSet(NamedTuple):
    """The content of a tokens file when it was read.

    ``problem`` says why the file cannot be used; then the set is empty. ``exists`` is False if
    there was no file at all.
    """

    by_id: Mapping[str, Token]
    exists: bool = True
    problem: str = ""

    def find(self, text: str) -> Token | None:
        """Return the token with this text, as a caller sent it; None if there is none.

        Every text takes the same comparison, in constant time, so that the time does not reveal
        which ids exist or how much of a secret is right.
        """
        parts = _TOKEN.fullmatch(text)
        token = self.by_id.get(parts[1]) if parts else None

        secret = parts[2] if parts else ""
        expected_hash = token.sha256 if token else _IMPOSSIBLE_HASH
        is_same = hmac.compare_digest(_hash_secret(secret), expected_hash)

        return token if is_same else None

    @property
    def namespaces(self) -> set[str]:
        """The namespaces whose memories and files the tokens open."""
        tokens = self.by_id.values()
        return {token.namespace for token in tokens if token.scope != "metrics"}

    def is_token_needed(self, require_tokens: bool | None) -> bool | None:
        """Return whether callers on this machine need a token, given the setting.

        None means that there is no file, so it depends on whether there ever were tokens. If the
        file exists without tokens, they were revoked or lost, and a token is still needed.
        """
        if require_tokens is not None:
            return require_tokens

        return True if self.exists else None


class TokenFile:
    """A JSON file of tokens, which is read again after every change.

    The path may be a link, as with mounted secrets. Only a regular file is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: _FileState | None = None
        self._tokens: dict[str, Token] = {}

    def load(self) -> TokenSet:
        """Return the content of the file, parsing it only if it changed since the last call."""
        try:
            status = self.path.stat()
            if self._state != _FileState.from_status(status):
                self._parse(status)
        except FileNotFoundError:
            self._state = None
            if self.path.is_symlink():
                return TokenSet({}, problem="the tokens file is a link that leads to no file")

            return TokenSet({}, exists=False)
        except _UnusableFile as error:
            self._state = None
            return TokenSet({}, problem=str(error))
        except (OSError, ValueError):
            self._state = None
            problem = "the tokens file cannot be read, or holds something else"
            return TokenSet({}, problem=problem)

        return TokenSet(self._tokens)

    def tokens(self) -> list[Token]:
        """Return the tokens, oldest first; none if there is no file.

        Raises ValueError if the file cannot be used, like all methods but `load`.
        """
        return list(self._read().values())

    def find(self, text: str) -> Token | None:
        """Return the token with this text, as a caller sent it; None if there is none."""
        return TokenSet(self._read()).find(text)

    def add(
        self,
        namespace: str,
        scope: Scope,
        label: str = "",
        tools: tuple[str, ...] = (),
        reads: tuple[str, ...] = (),
    ) -> tuple[Token, str]:
        """Add a token, and return it with its text, which is known only now."""
        secret = secrets.token_urlsafe(32)

        with self._lock():
            tokens = self._read()
            name = secrets.token_hex(4)
            while name in tokens:
                name = secrets.token_hex(4)

            token = Token(
                id=name,
                namespace=namespace,
                scope=scope,
                created_at=utc_now(),
                label=label,
                tools=tools,
                reads=reads,
                sha256=_hash_secret(secret),
            )
            self._write([*tokens.values(), token])

        return token, f"abl_{token.id}_{secret}"

    def revoke(self, name: str) -> Token | None:
        """Remove the token with this id, and return it; None if there is none."""
        with self._lock():
            tokens = self._read()
            token = tokens.pop(name, None)
            if token is not None:
                self._write(list(tokens.values()))

        return token

    def _read(self) -> dict[str, Token]:
        """Return the tokens by id."""
        tokens = self.load()
        if tokens.problem:
            raise ValueError(tokens.problem)

        return dict(tokens.by_id)

    def _parse(self, status: os.stat_result) -> None:
        """Read the tokens and remember the state of the file. Raises OSError, ValueError."""
        # Before it is opened, because opening alone has effects on some devices.
        _check_status(status)

        # If a FIFO took the file's place at this moment, opening it without O_NONBLOCK would block.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(self.path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            _check_status(status)
            content = file.read(MAX_FILE_BYTES + 1)

        if len(content) > MAX_FILE_BYTES:
            raise _UnusableFile(_TOO_LARGE)

        self._tokens = {token.id: token for token in _TOKENS.validate_json(content)}
        self._state = _FileState.from_status(status)

    def _write(self, tokens: list[Token]) -> None:
        with AtomicFile(self.path).open() as file:
            # Without defaults, so that earlier versions can read tokens without tools.
            file.write(_TOKENS.dump_json(tokens, indent=2, exclude_defaults=True) + b"\n")

    @contextmanager
    def _lock(self) -> Generator[None]:
        """Exclude other processes that change the file.

        The lock is on another file, because each change replaces the tokens file.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_path = self.path.with_name(f"{self.path.name}-lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


class _UnusableFile(ValueError):
    """The tokens file is not read at all; the message says why."""


def _check_status(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _UnusableFile(_NOT_REGULAR)
    if status.st_size > MAX_FILE_BYTES:
        raise _UnusableFile(_TOO_LARGE)


def _hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
