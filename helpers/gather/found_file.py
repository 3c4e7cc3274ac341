"""What a file that was read is in an answer."""

from abilities.declarations.values import JsonObject
from abilities.helpers.files.file_text import FileText
from abilities.helpers.files.paths import parse_path
from abilities.helpers.reply.envelope import FoundItem
from abilities.helpers.reply.items import Item
from abilities.helpers.text.pieces import Piece

_WIDEST_NUMBER = 10**12


def describe_file(file: FileText) -> FoundItem:
    """Return a file that was read as an item that was found."""

    def continue_at(point: str) -> Item:
        return f"{file.path}#{point}"

    return FoundItem(file.to_data(), file.piece, file.original, continue_at, file.stat.st_size)


def foresee_file(path: str) -> FoundItem:
    """Return a file that was not read as it may be found, at the widest, without a content."""
    name = parse_path(path).path
    data: JsonObject = {
        "path": name,
        "source": "workspace",
        "content": "",
        "size_bytes": _WIDEST_NUMBER,
        "modified_at": "2000-01-01T00:00:00.000000Z",
        "version": "0" * 24,
        "lines": _WIDEST_NUMBER,
    }
    piece = Piece("", start=_WIDEST_NUMBER, total_chars=_WIDEST_NUMBER)

    def continue_at(point: str) -> Item:
        return f"{name}#{point}"

    return FoundItem(data, piece, path, continue_at, _WIDEST_NUMBER)
