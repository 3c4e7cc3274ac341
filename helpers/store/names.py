"""Keys and ids made of names that cannot be one; always in the same way."""

import re
from hashlib import blake2b
from uuid import UUID

from abilities.declarations.limits import MAX_KEY_CHARS
from abilities.declarations.memory import is_key
from abilities.declarations.values import has_control_character

HASH_MARK = 9
"""Characters that mark a shortened text: '~' and eight hexadecimal digits of a hash."""

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def make_key(name: str) -> str:
    """Return the key for a name: the name itself if it is a valid key, else a shortened one."""
    if is_key(name):
        return name

    # The hash is of the name itself: two names whose characters are replaced alike stay apart.
    storable = to_storable(name).replace("\ufffd", " ")
    plain = "".join(" " if has_control_character(char) else char for char in storable)
    beginning = plain[: MAX_KEY_CHARS - HASH_MARK].strip()
    return f"{beginning}~{hash_text(name)}"


def make_id(namespace: str, key: str) -> str:
    """Return the id of a memory that came without a valid one: always the same for its key.

    It has the form of a version 4 UUID (RFC 9562), as all ids of memories, but it is a hash.
    """
    name = f"{namespace}\0{key}".encode("utf-8", "surrogatepass")
    digest = blake2b(name, digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


def to_storable(text: str) -> str:
    """Replace NUL and lone surrogates with U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def hash_text(text: str) -> str:
    """Return eight hexadecimal digits that tell a text from others."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
