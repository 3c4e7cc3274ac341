"""Write every file of the repository that follows from the code: `make write`.

They are committed, because people and clients read them where they are.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from abilities.definition import format_declaration
from benchmarks import documents
from tests.support.catalog import BUILT_IN
from tools import bundles, python_page, reference, specification
from tools.llms import write_llms

ROOT = Path(__file__).parent.parent
SCHEMAS = ROOT / "declarations" / "schemas"


def list_texts() -> dict[Path, Callable[[], str]]:
    """Return each file with the function that gives its text, in the order of their writing."""
    texts: dict[Path, Callable[[], str]] = {}
    for ability in BUILT_IN:
        path = SCHEMAS / f"{ability.name}.json"
        texts[path] = partial(format_declaration, ability)
    for path in documents.DOCUMENTS:
        texts[path] = partial(documents.fill_document, path)
    for module in (reference, python_page, specification):
        texts[module.PAGE] = module.page
    for path, text in bundles.build_plugin().items():
        texts[ROOT / path] = partial(str, text)

    texts[ROOT / "llms.txt"] = write_llms  # of the first lines of all pages
    return texts


def main() -> None:
    """Write the files, and print those that changed."""
    for path, build in list_texts().items():
        text = build()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
