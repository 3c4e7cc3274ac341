"""Documents that other libraries write, and the text that these read from them."""

import datetime
import io
import json
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import docx
import docx.table
import openpyxl  # type: ignore[import-untyped]
import pptx
import pypdf

from tests.support.hostile_documents import build_pdf, write_stream

SECRET = "AKIA" + "QYLPMN5HHHFPZAM2"
PARAGRAPHS = 200


def build_word() -> bytes:
    """Return a document with paragraphs, a table, and a text that looks like a mark."""
    document = docx.Document()
    document.add_paragraph("[page 1]")
    for number in range(2, PARAGRAPHS):
        document.add_paragraph(f"Paragraph {number}\tof the plän — 日本 🎉")

    table = document.add_table(2, 2)
    table.cell(0, 0).text, table.cell(1, 1).text = "Region", "North\nand south"
    return save(document.save)


def read_word(path: Path) -> str:
    """Return the text as python-docx reads it: a line per paragraph or row."""
    lines: list[str] = []
    item: Any  # a paragraph or a table
    for item in docx.Document(str(path)).iter_inner_content():
        if isinstance(item, docx.table.Table):
            lines += ["\t".join(_join(cell.text) for cell in row.cells) for row in item.rows]
        else:
            lines.append(item.text)

    lines[0] = f" {lines[0]}"  # so that it is no mark
    return _end(lines)


def build_workbook() -> bytes:
    """Return sheets with values of all kinds, far apart."""
    workbook = openpyxl.Workbook()
    first = workbook.active
    assert first is not None
    first.title = "All kinds"
    first.append(["text", 1, 2.5, True, datetime.date(2024, 2, 29), datetime.time(12, 30)])
    first["C3"], first["AB5"] = datetime.datetime(2024, 1, 1, 23, 59, 59), "far\naway"
    first["A9"].value, first["A9"].number_format = 45_351.5, '[Red]"day" dd/mm/yy hh:mm'

    for number in range(2, 5):
        sheet = workbook.create_sheet(f"Sheet{number}")
        for row in range(60):
            sheet.append([f"tea {number}.{row}", row, row / 4])

    return save(workbook.save)


def read_workbook(path: Path) -> str:
    """Return the values as openpyxl reads them."""
    lines: list[str] = []
    for sheet in openpyxl.load_workbook(path, data_only=True).worksheets:
        lines.append(f"[sheet {sheet.title}]")
        for number, row in enumerate(sheet.iter_rows(values_only=True), start=1):
            values = [_describe(value) for value in row]
            while values and not values[-1]:
                values.pop()
            if values:
                lines.append("\t".join((str(number), *values)))

    return _end(lines)


def _describe(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()

    return "" if value is None else _join(str(value)).removesuffix(" 00:00:00")


def build_slides() -> bytes:
    """Return slides, the second with notes."""
    presentation = pptx.Presentation()
    for number in range(1, 5):
        slide: Any = presentation.slides.add_slide(presentation.slide_layouts[1])
        slide.shapes.title.text = f"Title {number}"
        slide.placeholders[1].text = "first line\nsecond line"
        if number == 2:
            slide.notes_slide.notes_text_frame.text = "Say hello."

    return save(presentation.save)


def read_slides(path: Path) -> str:
    """Return the text as python-pptx reads it."""
    lines: list[str] = []
    slide: Any
    for number, slide in enumerate(pptx.Presentation(str(path)).slides, start=1):
        lines.append(f"[slide {number}]")
        for shape in slide.shapes:
            lines += [paragraph.text for paragraph in shape.text_frame.paragraphs]
        if slide.has_notes_slide:
            lines += ["--- notes", slide.notes_slide.notes_text_frame.text]

    return _end(lines)


def build_pages(count: int = 5, text: str = "This is page") -> bytes:
    """Return a PDF with a line of text and the number of the page on each."""
    font = 3
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(count))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%b]/Count %d>>" % (kids, count),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number in range(count):
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R"
            b"/Resources<</Font<</F %d 0 R>>>>>>" % (5 + 2 * number, font)
        )
        shown = f"{text} {number + 1}".encode()
        objects.append(write_stream(b"BT /F 12 Tf 50 700 Td (%b) Tj ET" % shown))

    return build_pdf(*objects)


def read_pages(path: Path) -> str:
    """Return the text as pypdf extracts it."""
    pages = enumerate(pypdf.PdfReader(path).pages, start=1)
    return _end([f"[page {number}]\n{page.extract_text()}" for number, page in pages])


def build_notebook() -> bytes:
    """Return a notebook with a text, and code with outputs of three kinds."""
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["tea\n", "x" * 2000, "\n"]},
        {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}},
        {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo="}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {"cell_type": "code", "source": "print('tea')", "outputs": outputs},
        {"cell_type": "code", "source": ["1 / 0"], "outputs": [
            {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero"}
        ]},
    ]  # fmt: skip
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}}).encode()


def read_notebook(path: Path) -> str:
    """Return the text that is expected of it."""
    hidden = len("tea\n") + 2000 + len("\n42\n(image/png)") - 1000
    return _end([
        "[cell 1 markdown]", "# Title", "Text.",
        "[cell 2 code]", "print('tea')", "--- output", "tea", "x" * 996,
        f"({hidden:,} more characters)",
        "[cell 3 code]", "1 / 0", "--- output", "ZeroDivisionError: division by zero",
    ])  # fmt: skip


DOCUMENTS: dict[str, tuple[Callable[[], bytes], Callable[[Path], str]]] = {
    "plan.docx": (build_word, read_word),
    "book.xlsx": (build_workbook, read_workbook),
    "deck.pptx": (build_slides, read_slides),
    "paper.pdf": (build_pages, read_pages),
    "study.ipynb": (build_notebook, read_notebook),
}
"""What builds each document, and what returns the text that is expected of it."""


def write_documents(folder: Path) -> None:
    """Write all documents into a folder."""
    for name in DOCUMENTS:
        (folder / name).write_bytes(_build(name))


@cache
def _build(name: str) -> bytes:
    return DOCUMENTS[name][0]()


def read_expected(path: Path) -> str:
    """Return the text that is expected of a document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DOCUMENTS[path.name][1](path)


def save(write: Callable[[io.BytesIO], object]) -> bytes:
    """Return what a library writes."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(file)

    return file.getvalue()


def _join(text: str) -> str:
    return " ".join(text.split())


def _end(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
