"""Documents: their text, its parts and pieces, and where else it is used."""

import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from abilities import Abilities, Settings, errors
from abilities.helpers.files import file_walk
from tests.support.document_files import (
    DOCUMENTS,
    SECRET,
    build_pages,
    read_expected,
    write_documents,
)
from tests.support.reading import Payload, follow, list_outcomes, read, write_files
from tests.support.surfaces import Through


@pytest.fixture
def workspace(roots: Settings) -> Path:
    """A workspace with a document of each format."""
    assert roots.workspace_dir is not None
    write_documents(roots.workspace_dir)
    return roots.workspace_dir


@pytest.fixture
async def app(roots: Settings, workspace: Path) -> AsyncIterator[Abilities]:
    async with Abilities.open(roots) as opened:
        yield opened


async def test_the_text_is_that_of_other_libraries(app: Abilities, workspace: Path) -> None:
    for name in DOCUMENTS:
        assert await read(app, name) == [read_expected(workspace / name)], name


async def test_every_surface_returns_the_same(
    roots: Settings, workspace: Path, through: Through
) -> None:
    paths = [*DOCUMENTS, "book.xlsx#Sheet2", "plan.docx#p9999"]

    payload = await through(roots)("file_read_bulk", paths=paths)

    assert [record["success"] for record in payload["results"]] == [True] * 6 + [False]


def take(text: str, mark: str, until: str) -> str:
    """Return the part of a text from one mark to another."""
    return text[text.index(mark) : text.index(until)]


PARTS = {
    "paper.pdf#p2": ("[page 2]", "[page 3]"),
    "paper.pdf#page 2": ("[page 2]", "[page 3]"),
    "paper.pdf#p1-p3": ("[page 1]", "[page 4]"),
    "paper.pdf#p1-3": ("[page 1]", "[page 4]"),
    "deck.pptx#slide 2": ("[slide 2]", "[slide 3]"),
    "book.xlsx#Sheet2": ("[sheet Sheet2]", "[sheet Sheet3]"),
    "book.xlsx#All kinds": ("[sheet All kinds]", "[sheet Sheet2]"),
    "study.ipynb#p2": ("[cell 2 code]", "[cell 3 code]"),
    "plan.docx#p3-p5": ("Paragraph 3", "Paragraph 6"),
    "./plan.docx#p3": ("Paragraph 3", "Paragraph 4"),
}
"""Parts, and the marks from which and until which each one goes."""


async def test_a_part_is_read_by_its_number_or_name(app: Abilities, workspace: Path) -> None:
    for item, (mark, until) in PARTS.items():
        name = item.removeprefix("./").partition("#")[0]
        expected = take(read_expected(workspace / name), mark, until)

        assert await read(app, item) == [expected], item


async def test_parts_to_the_end_and_lines_are_read(app: Abilities, workspace: Path) -> None:
    text = read_expected(workspace / "paper.pdf")

    rest, far, lines = await read(app, "paper.pdf#p4-", "paper.pdf#p4-p99", "paper.pdf#L3-4")

    assert rest == far == text[text.index("[page 4]") :]
    assert lines == take(text, "[page 2]", "[page 3]")


async def test_an_unknown_part_is_refused(app: Abilities) -> None:
    for part in ("p6", "p0", "p3-p2", "Nothing", "p", "page", "p1-p2-p3", "p99999999999"):
        assert await read(app, f"paper.pdf#{part}") == ["no_such_part"], part


async def test_other_files_have_no_parts(app: Abilities, workspace: Path) -> None:
    write_files(workspace, {"notes.md": "tea", "text.pdf": "no PDF", "a.pdf#p1": "a file"})
    paths = ["notes.md#p1", "text.pdf", "text.pdf#p1", "a.pdf#p1", "absent.pdf#p1"]

    outcomes = await read(app, *paths)

    assert outcomes == ["not_found", "no PDF", "no_such_part", "a file", "not_found"]


async def test_pieces_joined_are_the_whole(app: Abilities, workspace: Path) -> None:
    (workspace / "long.pdf").write_bytes(build_pages(300, "A line of text on page"))

    for name, part in itertools.product([*DOCUMENTS, "long.pdf"], ["", "#p2-", "#p1-p2"]):
        pieces: list[Payload] = []
        async for payload in follow(app, "read", {"items": [name + part], "max_tokens": 1000}):
            pieces += [record["data"] for record in payload["results"]]

        (whole,) = await read(app, name + part)
        assert "".join(piece["content"] for piece in pieces) == whole, name + part
        assert len({piece["version"] for piece in pieces}) == 1
        assert len(pieces) > 1 or len(whole) < 4000


async def test_a_known_document_is_unchanged_until_its_bytes_change(
    app: Abilities, workspace: Path
) -> None:
    (record,) = (await app.call("read", {"items": ["paper.pdf"]}))["results"]
    item = {"file": "paper.pdf", "known": record["data"]["version"]}

    unchanged = await app.call("read", {"items": [item]})
    (workspace / "paper.pdf").write_bytes(build_pages(2, "Changed page"))
    changed = await app.call("read", {"items": [item]})

    assert unchanged["results"][0]["unchanged"]
    assert "Changed page 2" in changed["results"][0]["data"]["content"]


async def test_what_a_plan_predicts_is_what_comes(app: Abilities) -> None:
    request = {"items": [*DOCUMENTS, "paper.pdf#p2", {"glob": "*.pptx"}], "max_tokens": 1000}

    planned = await app.call("read", {**request, "plan": True})
    answer = await app.call("read", planned["next_request"])

    for plan, record in zip(planned["results"], answer["results"], strict=True):
        content = record.get("data", {}).get("content", "") if record["success"] else ""
        assert plan["input"] == record["input"]
        assert "items" in plan or plan["granted_bytes"] == len(content.encode())


async def test_a_document_is_as_large_as_its_text(app: Abilities, workspace: Path) -> None:
    # The file is larger than the reply, but its text fits in whole, before the longer one.
    (workspace / "padded.pdf").write_bytes(build_pages(1) + b"\n" * 100_000)
    (workspace / "long.txt").write_text("tea " * 2000)
    request = {"items": ["long.txt", "padded.pdf"], "max_tokens": 1000}

    answer = await app.call("read", request)

    assert answer["results"][1]["data"]["content"] == "[page 1]\nThis is page 1\n"
    assert "truncation" not in answer["results"][1]


async def test_documents_are_searched(
    app: Abilities, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_walk, "SECONDS", 60.0)  # a busy machine may be slow
    item = {"search": "tea", "in": "*.{xlsx,ipynb}", "context": 0}

    (record,) = (await app.call("read", {"items": [item]}))["results"]

    hits = record["data"]["items"]
    assert {hit["path"].partition("#")[0] for hit in hits} == {"book.xlsx", "study.ipynb"}
    assert await read(app, *(hit["path"] for hit in hits)) == [
        hit["data"]["content"] for hit in hits
    ]
    lines = read_expected(workspace / "book.xlsx").splitlines()
    expected = [number for number, line in enumerate(lines, start=1) if "tea" in line]
    found = [hit["data"]["lines"] for hit in hits if hit["path"].startswith("book.xlsx")]
    assert list(itertools.chain(*found)) == expected


async def test_secrets_in_documents_are_redacted(app: Abilities, workspace: Path) -> None:
    (workspace / "key.pdf").write_bytes(build_pages(1, f"aws_access_key_id = {SECRET} "))

    (content,) = await read(app, "key.pdf")

    assert "[secret: AWS access key]" in content and SECRET not in content


async def test_denied_documents_stay_denied(app: Abilities, workspace: Path) -> None:
    write_files(workspace, {".ssh/paper.pdf": build_pages()})
    os.symlink("/etc/passwd", workspace / "link.pdf")

    outcomes = await read(app, ".ssh/paper.pdf", ".ssh/paper.pdf#p1", "link.pdf#p1")

    assert outcomes == ["denied", "denied", "symlink_escape"]


async def test_without_the_extra_the_refusal_names_it(
    roots: Settings, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(errors._MODULES, "documents", ("no_such_module",))
    async with Abilities.open(roots) as app:
        payload = await app.call("file_read_bulk", {"paths": [*DOCUMENTS, "paper.pdf#p1"]})
        concise = await app.call("read", {"items": ["paper.pdf"], "detail": "concise"})

    *refused, notebook, part = list_outcomes(payload)
    assert {*refused, part} == {"reader_missing"}
    assert notebook == (workspace / "study.ipynb").read_text()
    command = errors.format_install("documents")
    assert command in payload["results"][0]["error"]["message"]
    assert command in concise["results"][0]["message"]


async def test_what_is_no_notebook_is_read_as_text(app: Abilities, workspace: Path) -> None:
    for raw in ('{"cells": [', '{"a": 1}', "{}", '{"cells": [1]}', "<<<<<<< {"):
        (workspace / "odd.ipynb").write_text(raw)

        assert await read(app, "odd.ipynb") == [f"{raw}\n"]
