"""Settings that are several names."""

Names = tuple[str, ...]
"""Several names; in the environment one string, with commas between them."""

_DEFAULT = "..."


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas between them.

    >>> split_names("read, recall")
    ('read', 'recall')
    """
    names = [name.strip() for name in text.split(",")]
    return tuple(name for name in names if name)


def insert_default(names: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names with the default ones, if they hold ``...``, which stands for those.

    >>> insert_default(("...", "vendor"), ("node_modules", "venv"))
    ('node_modules', 'venv', 'vendor')
    """
    if _DEFAULT not in names:
        return names

    return (*default, *(name for name in names if name != _DEFAULT))
