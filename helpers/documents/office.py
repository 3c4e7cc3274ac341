"""Read Word, Excel and PowerPoint files (ECMA-376), with the standard library.

A file is a ZIP archive of XML files. These are parsed as they are unpacked, so that large ones take
no more memory than small ones, and none may declare a document type, as entities need.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from posixpath import join, normpath
from typing import BinaryIO, NamedTuple

from abilities.helpers.documents.reader import Part

Attributes = Mapping[str, str]

_CHUNK = 64 * 1024

_SKIPPED = ("Fallback", "moveFrom", "fld", "rPh", "f")
"""Elements with text that is elsewhere too or is not shown: a second form for old programs, text
before it was moved, pronunciations, and formulas, of which the values are read.
"""

# Numbers of the built-in formats for dates and times (ECMA-376-1, 18.8.30).
_DATE_FORMATS = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_NOT_IN_DATES = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|General', re.IGNORECASE)
_COLUMN = re.compile(r"[A-Z]{1,3}")
_MAX_COLUMNS = 16_384


class _Handler:
    """Collects what an XML file contains. Names of elements have no namespace."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin an element."""

    def end(self, name: str, text: str) -> None:
        """End an element; ``text`` is all that was in text elements since the last `end`."""

    def take(self) -> str:
        """Return the lines since the last call."""
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines.clear()
        return text


class _Package:
    """The files of an archive, and how they refer to each other."""

    def __init__(self, stream: BinaryIO) -> None:
        from zipfile import ZipFile

        self._archive = ZipFile(stream)
        self.main = next(
            target
            for kind, target in self.list_targets("").values()
            if kind.endswith("/officeDocument")
        )

    def parse(self, name: str, handler: _Handler) -> Iterator[None]:
        """Parse a file, and pause after each chunk of it. Raises KeyError and ExpatError."""
        from xml.parsers.expat import ParserCreate

        parser = ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        text: list[str] = []
        skipped = 0

        def start(full_name: str, attributes: Attributes) -> None:
            nonlocal skipped
            name = full_name.rpartition(" ")[2]
            if skipped or name in _SKIPPED:
                skipped += 1
                return

            if name in ("t", "v"):
                text.clear()
                parser.CharacterDataHandler = text.append
            handler.start(name, attributes)

        def end(full_name: str) -> None:
            nonlocal skipped
            if skipped:
                skipped -= 1
                return

            parser.CharacterDataHandler = None
            handler.end(full_name.rpartition(" ")[2], "".join(text))
            text.clear()

        def refuse(*_: object) -> None:
            raise ValueError("an office document declares no document type")

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.StartDoctypeDeclHandler = refuse

        with self._archive.open(name) as file:
            while chunk := file.read(_CHUNK):
                parser.Parse(chunk)
                yield

        parser.Parse(b"", True)

    def list_elements(self, name: str, *wanted: str) -> list[tuple[str, Attributes]]:
        """Return the names and attributes of some elements of a file, in their order.

        Raises KeyError and ExpatError.
        """
        elements = _Elements(wanted)
        for _ in self.parse(name, elements):
            pass

        return elements.found

    def list_targets(self, name: str) -> dict[str, tuple[str, str]]:
        """Return the type and the name of each file that a file refers to, by its id."""
        folder, _, file = name.rpartition("/")
        targets: dict[str, tuple[str, str]] = {}
        with suppress(KeyError):  # a file that refers to none
            relations = join(folder, "_rels", f"{file}.rels")
            for _, attributes in self.list_elements(relations, "Relationship"):
                target = normpath(join("/", folder, attributes["Target"]))[1:]
                targets[attributes["Id"]] = (attributes["Type"], target)

        return targets

    def list_parts(self, element: str) -> list[tuple[str, str, str]]:
        """Return the title, type and name of each file that elements of the main file refer to."""
        targets = self.list_targets(self.main)
        parts: list[tuple[str, str, str]] = []
        for _, attributes in self.list_elements(self.main, element):
            reference = next(key for key in attributes if key.endswith("/relationships id"))
            parts.append((attributes.get("name", ""), *targets[attributes[reference]]))

        return parts


class _Elements(_Handler):
    def __init__(self, wanted: Sequence[str]) -> None:
        super().__init__()
        self._wanted = wanted
        self.found: list[tuple[str, Attributes]] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name in self._wanted:
            self.found.append((name, attributes))


class _Lines(_Handler):
    """Collects paragraphs as lines, and rows of tables as lines with tabs between the cells.

    Word and PowerPoint use the same names for their elements.
    """

    def __init__(self) -> None:
        super().__init__()
        self._text: list[str] = []
        self._cells: list[str] = []
        self._tables = self._paragraphs = self._runs = 0

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "tbl":
            self._tables += 1
        elif name == "p":
            self._paragraphs += 1  # a text box in a paragraph has paragraphs of its own
        elif name == "r":
            self._runs += 1
        elif name == "tab" and self._runs:
            self._text.append("\t")
        elif name in ("br", "cr"):
            self._text.append(" ")  # a paragraph is one line

    def end(self, name: str, text: str) -> None:
        if name == "t":
            self._text.append(text.replace("\n", " "))
        elif name == "r":
            self._runs -= 1
        elif name == "p":
            self._paragraphs -= 1
            if self._paragraphs or self._tables:
                self._text.append(" ")
            else:
                self._lines.append(self._take_text())
        elif name == "tc" and self._tables == 1:
            self._cells.append(self._take_text().strip())
        elif name == "tr" and self._tables == 1:
            self._lines.append("\t".join(self._cells))
            self._cells.clear()
        elif name == "tbl":
            self._tables -= 1

    def _take_text(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        return text


def _read_document(stream: BinaryIO) -> Iterator[Part]:
    """Yield the body: a line per paragraph or row of a table. There are no marks."""
    package = _Package(stream)
    yield from _read_lines(package, package.main)


def _read_lines(package: _Package, name: str) -> Iterator[Part]:
    lines = _Lines()
    for _ in package.parse(name, lines):
        yield Part("", lines.take())


def _read_slides(stream: BinaryIO) -> Iterator[Part]:
    """Yield a part per slide, and the speaker's notes after a line of their own."""
    package = _Package(stream)
    for number, (_, _, name) in enumerate(package.list_parts("sldId"), start=1):
        yield Part(f"slide {number}", "")
        yield from _read_lines(package, name)

        for kind, notes in package.list_targets(name).values():
            if kind.endswith("/notesSlide"):
                yield Part("", "--- notes")
                yield from _read_lines(package, notes)


def _read_sheets(stream: BinaryIO) -> Iterator[Part]:
    """Yield a part per sheet: each row's number and the values of its cells, with tabs between."""
    package, strings = _Package(stream), _Strings()
    dates: set[int] = set()
    for kind, name in package.list_targets(package.main).values():
        if kind.endswith("/sharedStrings"):
            for _ in package.parse(name, strings):
                pass
        elif kind.endswith("/styles"):
            dates = _find_date_styles(package, name)

    epoch = datetime(1899, 12, 30)
    for _, attributes in package.list_elements(package.main, "workbookPr"):
        if attributes.get("date1904") in ("1", "true"):
            epoch = datetime(1904, 1, 1)

    for title, kind, name in package.list_parts("sheet"):
        yield Part(f"sheet {title}", "")
        if kind.endswith("/worksheet"):
            rows = _Rows(strings.found, dates, epoch)
            for _ in package.parse(name, rows):
                yield Part("", rows.take())


def _find_date_styles(package: _Package, name: str) -> set[int]:
    """Return the numbers of the styles of cells that show a number as a date."""
    date_formats = set(_DATE_FORMATS)
    styles: list[int] = []

    for element, attributes in package.list_elements(name, "numFmt", "cellXfs", "xf"):
        if element == "numFmt":
            code = _NOT_IN_DATES.sub("", attributes["formatCode"]).lower()
            if any(letter in code for letter in "ymdhs"):
                date_formats.add(int(attributes["numFmtId"]))
        elif element == "cellXfs":
            styles.clear()  # those before are not styles of cells
        else:
            styles.append(int(attributes.get("numFmtId", 0)))

    return {style for style, number in enumerate(styles) if number in date_formats}


class _Strings(_Handler):
    """Collects the texts of cells, which are stored once and numbered."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._text: list[str] = []

    def end(self, name: str, text: str) -> None:
        if name == "t":
            self._text.append(text)
        elif name == "si":
            self.found.append(" ".join("".join(self._text).split()))
            self._text.clear()


class _Rows(_Handler):
    def __init__(self, strings: list[str], dates: set[int], epoch: datetime) -> None:
        super().__init__()
        self._strings = strings
        self._dates = dates
        self._epoch = epoch
        self._number = 0
        self._cells: list[str] = []
        self._cell: Attributes = {}
        self._value: list[str] = []

    def start(self, name: str, attributes: Attributes) -> None:
        if name == "row":
            self._number = int(attributes.get("r", self._number + 1))
        elif name == "c":
            self._cell = attributes

    def end(self, name: str, text: str) -> None:
        if name in ("t", "v"):
            self._value.append(text)
        elif name == "c":
            value = self._format_value("".join(self._value))
            self._value.clear()
            if value:
                missing = self._find_column() - len(self._cells)
                self._cells += [""] * missing
                self._cells.append(value)
        elif name == "row":
            if self._cells:
                self._lines.append("\t".join((str(self._number), *self._cells)))
            self._cells.clear()

    def _find_column(self) -> int:
        """Return the place of the cell in its row, from 0."""
        letters = _COLUMN.match(self._cell.get("r", ""))
        if letters is None:
            return len(self._cells)

        column = 0
        for letter in letters[0]:
            column = column * 26 + ord(letter) - ord("A") + 1

        return min(column, _MAX_COLUMNS) - 1

    def _format_value(self, value: str) -> str:
        kind = self._cell.get("t", "n")
        if kind == "s":
            return self._strings[int(value)] if value else ""

        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"

        if kind == "n" and value and int(self._cell.get("s", 0)) in self._dates:
            with suppress(ValueError, OverflowError):
                days = float(value)
                moment = self._epoch + timedelta(seconds=round(days * 86_400))
                if 0 <= days < 1:
                    return f"{moment:%H:%M:%S}"

                return moment.isoformat(" ").removesuffix(" 00:00:00")

        return " ".join(value.split())


class OfficeReader(NamedTuple):
    """A reader of one kind of files; ``convert`` raises the exceptions of `zipfile` and expat."""

    suffixes: tuple[str, ...]
    convert: Callable[[BinaryIO], Iterator[Part]]
    magic: bytes = b"PK\x03\x04"
    imports: tuple[str, ...] = ("xml.parsers.expat", "zipfile")


WORD = OfficeReader((".docx", ".docm", ".dotx"), _read_document)
SHEETS = OfficeReader((".xlsx", ".xlsm", ".xltx"), _read_sheets)
SLIDES = OfficeReader((".pptx", ".pptm", ".ppsx"), _read_slides)
