"""Deterministic keys and ids for names that are not valid ones."""

import re
from hashlib import blake2b
from uuid import UUID

from abilities.declarations.limits import MAX_KEY_CHARS
from abilities.declarations.memory import is_key
from abilities.declarations.values import has_control_character

HASH_MARK = 9
"""Length of the mark of a shortened text: '~' and eight hexadecimal digits of a hash."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def make_key(name: str) -> str:
    r"""Return a name if it is a valid key, else its readable beginning and a hash of all of it.

    >>> make_key("two\nlines")
    'two lines~9744aefe'
    """
    if is_key(name):
        return name

    # The hash covers the original name, so names that look alike after replacement stay distinct.
    storable = to_storable(name).replace("\ufffd", " ")
    plain = "".join(" " if has_control_character(char) else char for char in storable)
    beginning = plain[: MAX_KEY_CHARS - HASH_MARK].strip()
    return f"{beginning}~{hash_text(name)}"


def make_id(namespace: str, key: str) -> str:
    """Return an id for a memory that came without a valid one, always the same for its key.

    It is a hash in the form of a version 4 UUID (RFC 9562), like every id of a memory.
    """
    name = f"{namespace}\0{key}".encode("utf-8", "surrogatepass")
    digest = blake2b(name, digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


def to_storable(text: str) -> str:
    """Replace NUL and lone surrogates with U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def hash_text(text: str) -> str:
    """Return a hash of a text as eight hexadecimal digits."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
