"""Paths and patterns of deepagents, and those of the abilities."""

import re


def strip(path: str) -> str:
    """Return a path as the abilities take it: without a slash at either end."""
    return path.strip("/")


def widen(root: str, pattern: str) -> str:
    """Return a glob of this package that finds what deepagents' pattern matches, and maybe more.

    ``root`` is the folder to look in; it is no pattern.
    """
    wide = pattern.strip("/").replace("[^", "[!")
    if "/" not in pattern.rstrip("/"):
        wide = f"**/{wide}"  # it names a file at any depth

    return f"{escape(root)}/{wide}".lstrip("/")


def escape(path: str) -> str:
    """Return a glob that finds a path, and maybe others."""
    # Braces and commas cannot be escaped, but a question mark stands for any of them.
    return re.sub(r"[{},]", "?", re.sub(r"[\[*?]", r"[\g<0>]", path))


def escape_file(path: str) -> str:
    """Return a glob that finds a file, and maybe others, but nothing beneath a folder."""
    return f"{escape(path[:-1])}?"


def find_name(path: str, root: str) -> str | None:
    """Return a file's path from a folder on, or its name if it is the root; None beside both."""
    if not root:
        return path.removeprefix("/")
    if path == f"/{root}":
        return path.rpartition("/")[2]

    return path.removeprefix(f"/{root}/") if path.startswith(f"/{root}/") else None


def find_folder(path: str, prefix: str) -> str:
    """Return the first folder of a path behind a prefix; empty if there is none."""
    folder, slash, _ = path.removeprefix(prefix).partition("/")
    return folder if slash else ""
