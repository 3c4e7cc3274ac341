"""The overview that a question gets which names nothing, such as "What do you remember about me?".

It shows what catching up would, in short: the long-term notes, the notes of the last days, and the
memories that are important or changed last.
"""

from abilities.declarations.limits import TOKEN_BYTES
from abilities.declarations.recall import RecallInput
from abilities.declarations.values import JsonObject, json_size
from abilities.helpers.memory.catching_up import (
    Findings,
    Shown,
    Sources,
    choose_findings,
    gather_findings,
)
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.memory.recall_answers import format_target
from abilities.helpers.memory.recalling import RecallResult, has_filters

OVERVIEW_BYTES = 300 * TOKEN_BYTES
"""The most bytes of an overview as JSON, about 300 tokens."""

_MEMORY_BYTES = 300
"""Bytes of one memory's content in an overview, so that it shows several."""

_NOTE_CHARS = 2_000
"""Characters of a note that are read; no overview shows more."""


async def build_overview(
    memory: MemoryHelper, arguments: RecallInput, result: RecallResult, max_bytes: int
) -> list[JsonObject]:
    """Return the records of an overview; none if one of the questions names something.

    There are none either if filters ask for some memories only. The records are like those of
    recalled memories, without scores.
    """
    if result.names_something or has_filters(arguments):
        return []
    if any(ranking.entries for ranking in result.rankings):
        return []  # found by their meaning

    sources = Sources(notes=arguments.notes, memories=True)
    findings = await gather_findings(memory, sources, _NOTE_CHARS)
    findings.memories = [finding._replace(max_bytes=_MEMORY_BYTES) for finding in findings.memories]
    return _fit(findings, min(max_bytes, OVERVIEW_BYTES), is_full=arguments.detail == "full")


def _fit(findings: Findings, max_bytes: int, *, is_full: bool) -> list[JsonObject]:
    """Return records of as many findings as fit."""
    room = max_bytes

    while True:
        records = [_build_record(shown, is_full) for shown in choose_findings(findings, room)]
        excess = json_size(records) - max_bytes
        if excess <= 0:
            return records
        room -= excess


def _build_record(shown: Shown, is_full: bool) -> JsonObject:
    label = shown.finding.label
    record: JsonObject = {name: label[name] for name in ("key", "filename") if name in label}
    record["content"] = shown.content
    if "date" in label:
        record["date"] = label["date"]

    if shown.is_cut:
        target: JsonObject = {name: label[name] for name in ("type", "key") if name in label}
        if label["type"] == "short_term":
            target["date"] = label["date"]
        target["resume"] = shown.finding.piece.resume(shown.chars)
        record["next"] = format_target(target, is_full)

    return record
