"""Tokens: who may call a server, for which namespace, to read or to write. Only their hashes are kept.

A token is ``abl_ID_SECRET`` with a secret of 256 random bits, which nobody can guess: a plain SHA-256 hides it as
well as a slow hash would. The prefix lets secret scanners find one that leaked.
"""

import fcntl
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from abilities.declarations.memory import NAMESPACE
from abilities.declarations.model import Model
from abilities.declarations.values import utc_now

Scope = Literal["read", "write"]
T = TypeVar("T")

_TOKEN = re.compile(r"abl_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_NOBODY = "0" * 64


class Token(Model):
    """What is kept of a token; ``sha256`` is the hash of its secret in hexadecimal."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
    namespace: Annotated[str, Field(pattern=f"^{NAMESPACE}$")]
    scope: Scope
    created_at: str
    label: Annotated[str, Field(max_length=100, description="Who has it.")] = ""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


_TOKENS = TypeAdapter(list[Token])


class TokenFile:
    """The tokens of a server, in a JSON file of their own, which is read again whenever it changed.

    ``ValueError`` is raised where the file is there but cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def tokens(self) -> list[Token]:
        """The tokens, oldest first; none where there is no file. Raises ValueError."""
        return list(self._read().values())

    def find(self, given: str) -> Token | None:
        """The token that was given, compared in constant time; None for any other text. Raises ValueError."""
        tokens = self._read()
        parts = _TOKEN.fullmatch(given)
        found = tokens.get(parts[1]) if parts else None
        same = hmac.compare_digest(
            _hashed(parts[2] if parts else ""), found.sha256 if found else _NOBODY
        )
        return found if same else None

    def add(self, namespace: str, scope: Scope, label: str = "") -> tuple[Token, str]:
        """Make a token and return it with the text to be handed out, which is known only now. Raises ValueError."""
        secret = secrets.token_urlsafe(32)

        def put(tokens: dict[str, Token]) -> Token:
            while (name := secrets.token_hex(4)) in tokens:
                pass
            made = {"created_at": utc_now(), "sha256": _hashed(secret)}
            token = Token(id=name, namespace=namespace, scope=scope, label=label, **made)
            tokens[name] = token
            return token

        token = self._change(put)
        return token, f"abl_{token.id}_{secret}"

    def revoke(self, name: str) -> Token | None:
        """Forget a token; None where there is none of this id. Raises ValueError."""
        return self._change(lambda tokens: tokens.pop(name, None))

    def _read(self) -> dict[str, Token]:
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                self._tokens = {
                    token.id: token for token in _TOKENS.validate_json(self.path.read_bytes())
                }
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._tokens = None, {}
        except (OSError, ValidationError) as error:
            self._seen = None
            raise ValueError("the tokens file cannot be read, or holds something else") from error
        return self._tokens

    def _change(self, work: Callable[[dict[str, Token]], T]) -> T:
        with self._locked():
            tokens = dict(self._read())
            result = work(tokens)
            part = self.path.with_name(self.path.name + ".part")
            with os.fdopen(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                file.write(_TOKENS.dump_json(list(tokens.values()), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        return result

    @contextmanager
    def _locked(self) -> Generator[None]:
        """One change at a time, of all processes."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(
            self.path.with_name(self.path.name + "-lock"),
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
            0o600,
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
