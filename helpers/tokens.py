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
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Generic, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter

from abilities.declarations.memory import Namespace, OtherNamespaces
from abilities.declarations.refusals import AbilitiesError
from abilities.declarations.values import Model, has_control_character, has_surrogate, utc_now
from abilities.helpers.durable import AtomicFile

Scope = Literal["read", "write", "purge", "metrics"]
"""The abilities of a token: only reading, all, purging too, or only a server's metrics."""

MAX_LABEL_CHARS = 100

MAX_FILE_BYTES = 4 * 1024 * 1024
"""The largest file that is read or written. It has room for more than 15,000 tokens."""

CLIENTS_SUFFIX = "-clients"
"""Suffix of the file beside the tokens file that has the OAuth clients and their grants."""

_WHILE_CHANGED = ("-lock", ".part")
TOKEN_SUFFIXES = (
    *_WHILE_CHANGED,
    CLIENTS_SUFFIX,
    *(CLIENTS_SUFFIX + end for end in _WHILE_CHANGED),
)
"""Suffixes of the files beside the tokens file."""

_TOKEN = re.compile(r"abl_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_IMPOSSIBLE_HASH = "0" * 64

Content = TypeVar("Content")


class Token(Model):
    """A token without its secret, of which only the hash is kept (hexadecimal)."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    namespace: Namespace
    scope: Scope
    created_at: str
    label: Annotated[str, Field(max_length=MAX_LABEL_CHARS, description="Who has it.")] = ""
    tools: Annotated[tuple[str, ...], Field(description="Tools it is offered; () is all.")] = ()
    reads: Annotated[OtherNamespaces, Field(description="Further namespaces that it reads.")] = ()
    client: Annotated[str, Field(description="The OAuth client that it was granted to.")] = ""
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


class Access(NamedTuple):
    """The rights of an access token (OAuth), as a token, and when it expires (Unix time)."""

    token: Token
    expires_at: int


class TokenSet(NamedTuple):
    """The content of a tokens file when it was read.

    ``problem`` says why the file cannot be used; then the set is empty. ``exists`` is False if
    there was no file at all. ``accesses`` has the rights of OAuth clients, by the hashes of
    their access tokens.
    """

    by_id: Mapping[str, Token]
    exists: bool = True
    problem: str = ""
    accesses: Mapping[str, Access] = MappingProxyType({})

    def find(self, text: str) -> Token | None:
        """Return the token with this text, as a caller sent it; None if there is none.

        Every text takes the same comparison, in constant time, so that the time does not reveal
        which ids exist or how much of a secret is right.
        """
        parts = _TOKEN.fullmatch(text)
        token = self.by_id.get(parts[1]) if parts else None

        secret = parts[2] if parts else ""
        expected_hash = token.sha256 if token else _IMPOSSIBLE_HASH
        is_same = hmac.compare_digest(hash_secret(secret), expected_hash)
        if is_same:
            return token

        # The hash is of 256 random bits, so the time of a lookup reveals nothing about them.
        access = self.accesses.get(hash_secret(text))
        return access.token if access and time.time() < access.expires_at else None

    @property
    def namespaces(self) -> set[str]:
        """The namespaces whose memories and files the tokens open."""
        tokens = self.by_id.values()
        return {token.namespace for token in tokens if token.scope != "metrics"}


class UnusableFile(AbilitiesError, ValueError):
    """A file is not read or written at all; the message says why."""


def _identify(status: os.stat_result) -> tuple[int, ...]:
    """Return the fields of a file's status that change when it is replaced or modified."""
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, *times, status.st_size


class LockedFile(Generic[Content]):
    """A JSON file that processes change in turn, and that is parsed again after every change.

    The path may be a link, as with mounted secrets. Only a regular file is read. ``kind`` names
    the file in messages, for example "tokens file".
    """

    def __init__(self, path: Path, content: TypeAdapter[Content], kind: str) -> None:
        self.path = path
        self._adapter = content
        self._kind = kind
        self._state: tuple[int, ...] = ()
        self._content: Content | None = None

    def read(self) -> Content:
        """Return the content, parsing it only if the file changed since the last call.

        Raises UnusableFile if the file is not regular or too large, ValueError for other content,
        and OSError.
        """
        status = self.path.stat()
        if self._content is not None and self._state == _identify(status):
            return self._content

        # Before it is opened, because opening alone has effects on some devices.
        self._content = None
        self._check(status)

        # If a FIFO took the file's place at this moment, opening it without O_NONBLOCK would block.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        with open(os.open(self.path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            self._check(status)
            text = file.read(MAX_FILE_BYTES + 1)

        self._check_size(len(text))
        self._content = self._adapter.validate_json(text)
        self._state = _identify(status)
        return self._content

    def write(self, content: Content) -> None:
        """Replace the content; only the holder of the `lock` may. Raises UnusableFile, OSError.

        Defaults are left out, so that earlier versions can read a file without later fields.
        """
        text = self._adapter.dump_json(content, indent=2, exclude_defaults=True) + b"\n"
        self._check_size(len(text))

        with AtomicFile(self.path).open() as file:
            file.write(text)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Exclude other processes and threads that change the file.

        The lock is on another file, because each change replaces the file.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_path = self.path.with_name(f"{self.path.name}-lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise UnusableFile(f"the {self._kind} is not a regular file")

        self._check_size(status.st_size)

    def _check_size(self, size: int) -> None:
        if size > MAX_FILE_BYTES:
            limit = MAX_FILE_BYTES // 1024 // 1024
            raise UnusableFile(f"the {self._kind} is larger than {limit} MiB")


class TokenFile:
    """A JSON file of tokens, which is read again after every change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = LockedFile(path, _TOKENS, "tokens file")

    def load(self) -> TokenSet:
        """Return the content of the file, parsing it only if it changed since the last call."""
        try:
            tokens = self._file.read()
        except FileNotFoundError:
            if self.path.is_symlink():
                return TokenSet({}, problem="the tokens file is a link that leads to no file")

            return TokenSet({}, exists=False)
        except UnusableFile as error:
            return TokenSet({}, problem=str(error))
        except (OSError, ValueError):
            problem = "the tokens file cannot be read, or holds something else"
            return TokenSet({}, problem=problem)

        return TokenSet({token.id: token for token in tokens})

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

        with self._file.lock():
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
                sha256=hash_secret(secret),
            )
            self._file.write([*tokens.values(), token])

        return token, f"abl_{token.id}_{secret}"

    def revoke(self, name: str) -> Token | None:
        """Remove the token with this id, and return it; None if there is none."""
        with self._file.lock():
            tokens = self._read()
            token = tokens.pop(name, None)
            if token is not None:
                self._file.write(list(tokens.values()))

        return token

    def _read(self) -> dict[str, Token]:
        """Return the tokens by id."""
        tokens = self.load()
        if tokens.problem:
            raise ValueError(tokens.problem)

        return dict(tokens.by_id)


def hash_secret(secret: str) -> str:
    """Return the hash by which a secret is kept: SHA-256, hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()
