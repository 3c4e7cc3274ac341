"""Settings that are several names."""

import re

Names = tuple[str, ...]
"""Several names; in the environment one string, with commas between them."""

_DEFAULT = "..."
_COMMA = re.compile(r",(?![^{}]*\})")
"""A comma between names; not one in the braces of a pattern."""


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas between them.

    >>> split_names("read, recall"), split_names("*.{pem,key}, .env")
    (('read', 'recall'), ('*.{pem,key}', '.env'))
    """
    names = [name.strip() for name in _COMMA.split(text)]
    return tuple(name for name in names if name)


def insert_default(names: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with the default ones, if they hold ``...``, which stands for those.

    >>> insert_default(("...", "vendor"), ("node_modules", "venv"))
    ('node_modules', 'venv', 'vendor')
    """
    if _DEFAULT not in names:
        return names

    return (*default, *(name for name in names if name != _DEFAULT))
