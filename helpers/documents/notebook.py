"""Read Jupyter notebooks cell by cell, with outputs cut."""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from abilities.helpers.documents.reader import Part

MAX_OUTPUT_CHARS = 1_000
"""Characters of the outputs of one cell."""


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
                text = _join(cell["source"])
                outputs = "\n".join(map(_describe_output, cell.get("outputs", ())))
                if outputs:
                    text += f"\n--- output\n{_cut(outputs)}"

                parts.append(Part(f"cell {number} {cell['cell_type']}", text))
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            # For example with the marks of a merge conflict.
            parts = [Part("", raw.decode(errors="replace"))]

        yield from parts


def _describe_output(output: Any) -> str:
    """Return the text of an output, or the types of its contents if it has none."""
    if output["output_type"] == "stream":
        return _join(output["text"]).rstrip("\n")

    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"

    if "text/plain" in output["data"]:
        return _join(output["data"]["text/plain"])

    return f"({', '.join(output['data'])})"


def _join(lines: str | list[str]) -> str:
    return "".join(lines)


def _cut(text: str) -> str:
    if len(text) <= MAX_OUTPUT_CHARS:
        return text

    return f"{text[:MAX_OUTPUT_CHARS]}\n({len(text) - MAX_OUTPUT_CHARS:,} more characters)"


READER = NotebookReader()
