"""Readers, which turn documents of a format into text with marks: their protocol, and two of them.

A document is read in parts, such as pages. The text of a part begins at its mark, a line such as
``[page 3]``, and ends before the next one. A request may name the part instead of a range.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

HEAD_BYTES = 1024
"""The bytes at the start of a file that must contain the reader's magic."""

MAX_OUTPUT_CHARS = 1_000
"""Characters of the outputs of one cell."""

_FIRST_MARK = re.compile(rb"\[(\w+) [^\n]*\]\n")
_NUMBERS = re.compile(r"p(\d{1,9})(?P<dash>-(?:p?(\d{1,9}))?)?", re.ASCII)


class Part(NamedTuple):
    """A part of a document.

    ``mark`` is a word for all parts of the format and the name of this one, such as ``page 3``. A
    part without a mark continues the one before it.
    """

    mark: str
    text: str


class Reader(Protocol):
    """Reads the documents of a format. Its module is imported in every process that reads files.

    ``suffixes`` are the ends of the names of such documents, in lower case, such as ``.pdf``.
    ``magic`` is contained in their first 1,024 bytes. ``imports`` are the modules that `convert`
    imports, which are imported once for all documents.
    """

    @property
    def suffixes(self) -> Sequence[str]:
        """The ends of file names."""
        ...

    @property
    def magic(self) -> bytes:
        """Bytes that the beginning of each document contains."""
        ...

    @property
    def imports(self) -> Sequence[str]:
        """Names of modules."""
        ...

    def convert(self, stream: BinaryIO, /) -> Iterable[tuple[str, str]]:
        """Yield the parts of a document; whatever it raises, the parts before that are kept.

        It runs in a process that is limited in time and memory, and can open no other file.
        """
        ...


class TextWriter:
    """Format parts as one text, in which no other line looks like a mark."""

    def __init__(self) -> None:
        self._kind: str | None = None

    def format(self, mark: str, text: str) -> bytes:
        """Return a part as UTF-8, with its mark and a line end."""
        mark = " ".join(mark.split())
        text = text.replace("\r\n", "\n").replace("\0", "")
        if text and not text.endswith("\n"):
            text += "\n"

        if self._kind is None:
            self._kind = mark.partition(" ")[0]
            if not mark and text.startswith("["):
                text = f" {text}"  # else the first line might be taken for a mark

        if self._kind:
            line_start = f"[{self._kind} "
            if text.startswith(line_start):
                text = f" {text}"
            text = text.replace(f"\n{line_start}", f"\n {line_start}")

        if mark:
            text = f"[{mark}]\n{text}"

        return text.encode("utf-8", "replace")


def is_numbered(part: str) -> bool:
    """Return whether a part is named by numbers, such as ``p3`` or ``p3-p5``."""
    return _NUMBERS.fullmatch(part) is not None


def find_part(text: bytes, part: str) -> tuple[int, int] | None:
    r"""Return the first byte and the end of the named parts in a text; None if it has none.

    ``p3`` is the third part and ``p3-p5`` are three of them; in a text without marks, they are its
    lines. Any other name is that of a mark, with or without its first word.

    >>> find_part(b"[sheet A]\n1\n[sheet B]\n2\n", "B")
    (12, 24)
    """
    starts: list[int] = []
    first_mark = _FIRST_MARK.match(text)
    if first_mark is None:
        line_ends = [match.end() for match in re.finditer(rb"\n", text)]
        starts = [0, *line_ends]
        if starts[-1] == len(text):
            starts.pop()
    else:
        wanted = part.encode("utf-8", "replace")
        marks = re.finditer(rb"^\[(%b (.*))\]$" % first_mark[1], text, re.MULTILINE)
        for mark in marks:
            if wanted in (mark[1], mark[2]):
                part = f"p{len(starts) + 1}"
            starts.append(mark.start())

    numbers = _NUMBERS.fullmatch(part)
    if numbers is None:
        return None

    first = last = int(numbers[1])
    if numbers["dash"]:
        last = int(numbers[3] or len(starts))

    if not 1 <= first <= min(last, len(starts)):
        return None

    starts.append(len(text))
    return starts[first - 1], starts[min(last, len(starts) - 1)]


class PdfReader:
    """Reads the text of pages, as pypdf extracts it. Text in images is not recognized."""

    suffixes = (".pdf",)
    magic = b"%PDF-"
    imports = ("pypdf",)

    def convert(self, stream: BinaryIO) -> Iterator[Part]:
        """Yield a part per page. Raises the exceptions of pypdf."""
        # Imported here, because other processes need only the names of the files.
        import pypdf

        for number, page in enumerate(pypdf.PdfReader(stream).pages, start=1):
            try:
                text = page.extract_text()
            except Exception:  # the other pages may still be readable
                text = "(This page cannot be read.)"

            yield Part(f"page {number}", text)


class NotebookReader:
    """Reads notebooks of nbformat 4. Any other file is read as the text that it is."""

    suffixes = (".ipynb",)
    magic = b"{"
    imports = ()

    def convert(self, stream: BinaryIO) -> Iterator[Part]:
        """Yield a part per cell: its source, and a part of the text of its outputs."""
        raw = stream.read()
        parts: list[Part] = []
        try:
            for number, cell in enumerate(json.loads(raw)["cells"], start=1):
                text = "".join(cell["source"])
                outputs = "\n".join(map(_describe_output, cell.get("outputs", ())))
                if outputs:
                    text += f"\n--- output\n{outputs[:MAX_OUTPUT_CHARS]}"
                if len(outputs) > MAX_OUTPUT_CHARS:
                    text += f"\n({len(outputs) - MAX_OUTPUT_CHARS:,} more characters)"

                parts.append(Part(f"cell {number} {cell['cell_type']}", text))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            # For example with the marks of a merge conflict.
            parts = [Part("", raw.decode(errors="replace"))]

        yield from parts


def _describe_output(output: Any) -> str:
    """Return the text of an output, or the types of its contents if it has none."""
    if output["output_type"] == "stream":
        return "".join(output["text"]).rstrip("\n")

    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"

    if "text/plain" in output["data"]:
        return "".join(output["data"]["text/plain"])

    return f"({', '.join(output['data'])})"


PDF = PdfReader()
NOTEBOOK = NotebookReader()
