"""Read PDF files page by page, with pypdf."""

from collections.abc import Iterator
from typing import BinaryIO

from abilities.helpers.documents.reader import Part


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


READER = PdfReader()
