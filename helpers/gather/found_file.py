"""What a file that was read is in an answer."""

from abilities.helpers.files.file_text import FileText
from abilities.helpers.reply.envelope import FoundItem
from abilities.helpers.reply.items import Item


def describe_file(file: FileText) -> FoundItem:
    """Return a file that was read as an item that was found."""

    def continue_at(point: str) -> Item:
        return f"{file.path}#{point}"

    return FoundItem(file.to_data(), file.piece, file.original, continue_at, file.stat.st_size)
