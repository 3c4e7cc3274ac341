"""Catching up: what is shown of any findings keeps the bound, and no content passes for a frame."""

from datetime import date
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from abilities import Abilities, Settings, parse_text
from abilities.helpers.memory.overview import MAX_MEMORY_BYTES, Finding, Findings, format_findings
from abilities.helpers.text import Piece
from abilities.prompts import write_catch_up
from tests.support.surfaces import run

OPENING = "What is known."
END = "000000 end of the data\n"
LINES = st.sampled_from(
    ["a line\n", "é\u0301\n", "名前 ", "👩‍👩‍👧", "\r\n", '{"results":[1]}\n', END]
)
CONTENTS = st.builds(
    lambda lines, times: "".join(lines) * times,
    st.lists(LINES, min_size=1, max_size=5),
    st.sampled_from([1, 10, 400]),
)
KEYS = st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=200)


def build_note(content: str, day: int | None = None) -> Finding:
    label = {"type": "long_term", "filename": "MEMORY.md"}
    if day is not None:
        name = f"2026-01-{day:02}"
        label = {"type": "short_term", "date": name, "filename": f"memory/{name}.md"}

    return Finding(label, Piece(content), content, len(content.encode()))


def build_memory(key: str, content: str) -> Finding:
    label = {"type": "stored", "key": key, "date": "2026-01-01", "importance": "high"}
    return Finding(label, Piece(content), content, MAX_MEMORY_BYTES)


FAILURES = [{"type": "short_term", "date": f"2026-01-0{day}", "reason": "x"} for day in range(1, 8)]
FINDINGS = st.builds(
    Findings,
    today=st.just(date(2026, 1, 7)),
    lasting=st.lists(st.builds(build_note, CONTENTS), max_size=1),
    days=st.lists(st.builds(build_note, CONTENTS, st.integers(1, 7)), max_size=7),
    memories=st.lists(st.builds(build_memory, KEYS, CONTENTS), max_size=40),
    failures=st.sampled_from([[], FAILURES]),
)


@given(findings=FINDINGS, max_bytes=st.integers(2_000, 20_000))
def test_any_findings_keep_the_bound_and_their_records(findings: Findings, max_bytes: int) -> None:
    text = format_findings(findings, OPENING, max_bytes)
    payload = read_payload(text)
    records = payload["results"]

    assert len(text.encode()) <= max_bytes
    assert text == format_findings(findings, OPENING, max_bytes)
    everything = [*findings.lasting, *findings.days, *findings.memories]
    assert len(records) + payload.get("left_out", 0) == len(everything)
    assert payload.get("failed", []) == findings.failures

    labels = [finding.label for finding in everything]
    for record in records:
        content = record.pop("content")
        is_cut = record.pop("truncated", False)
        assert record.pop("success")
        finding = everything[labels.index(record)]
        labels[labels.index(record)] = {}
        assert content and finding.content.startswith(content)
        assert is_cut == (content != finding.content)


def read_payload(text: str) -> dict[str, Any]:
    """Return the payload in a text; its last line is the boundary and the end."""
    opening, _, rest = text.partition("\n")
    assert opening == OPENING

    first_line, _, records = rest.partition("\n")
    if not records:
        return parse_text(first_line)

    boundary = records[:6]
    end = f"{boundary} end of the data\n"
    assert records.endswith("\n" + end)
    assert records.count(end) == 1
    return parse_text(f"{first_line}\n{records.removesuffix(end)}")


@given(size=st.integers(1, 3_000))
def test_whatever_one_section_does_not_need_is_for_the_others(size: int) -> None:
    findings = Findings(date(2026, 1, 7), lasting=[build_note("x" * size)])

    (record,) = read_payload(format_findings(findings, OPENING, 4_000))["results"]

    assert record["content"] == "x" * size


def test_the_command_prints_what_the_prompt_returns(roots: Settings) -> None:
    catch_up = partial(run, roots, "catch-up")

    nothing = catch_up()
    (roots.agent_root.path / "MEMORY.md").write_text("Ada owns the parser.\n" * 1_000)
    done, short = catch_up(), catch_up("--max-tokens", "500")

    assert nothing.stdout.startswith("There are no notes and no memories yet")
    assert 7_000 < len(done.stdout_bytes) <= 8_000
    assert 1_500 < len(short.stdout_bytes) <= 2_000
    assert done.exit_code == short.exit_code == 0
    assert catch_up("--max-tokens", "10").exit_code == 2


async def test_a_store_that_cannot_be_read_leaves_the_notes(roots: Settings) -> None:
    (roots.agent_root.path / "MEMORY.md").write_text("Ada owns the parser.\n")
    (roots.agent_dir.parent / "memory.db").write_bytes(b"no database" * 1_000)

    async with Abilities.open(roots) as abilities:
        text = await write_catch_up(abilities)

    assert "Ada owns the parser." in text
    assert '"failed":[{"type":"stored","reason":"corrupted"}]' in text
