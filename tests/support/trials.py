"""Trials of wrong calls: what was answered, and whether the corrector mends them in one round."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from abilities import Abilities, AbilityError, Settings
from tests.support.corrector import Call, Unmendable, find_meant, mend_call
from tests.support.wrong_calls import FILES, KEY, NOTES, WrongCall, list_wrong_calls

_ENOUGH = 90
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class Trial(NamedTuple):
    """A wrong call, the reasons of its refusal, and what was sent next, if anything was."""

    call: WrongCall
    reasons: list[str]
    mended: Call | None
    is_accepted: bool


def write_samples(agent: Path, workspace: Path) -> None:
    for folder, files in ((agent, NOTES), (workspace, FILES)):
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


async def try_calls(settings: Settings) -> list[Trial]:
    async with Abilities.open(settings) as abilities:
        memory = {"type": "core", "content": "Ships in May.", "key": KEY, "tags": ["release"]}
        stored = await abilities.call("store_memory", memory)
        calls = list_wrong_calls(stored["id"])
        return [await _try_call(abilities, call) for call in calls]


async def _try_call(abilities: Abilities, wrong: WrongCall) -> Trial:
    call = Call(wrong.ability, wrong.arguments)
    answer = await _send(abilities, call)
    reasons = list_reasons(answer)
    try:
        mended = mend_call(call, answer)
    except Unmendable:
        return Trial(wrong, reasons, None, is_accepted=False)
    is_accepted = not list_reasons(await _send(abilities, mended))
    return Trial(wrong, reasons, mended, is_accepted)


async def _send(abilities: Abilities, call: Call) -> dict[str, Any]:
    try:
        return await abilities.call(call.name, call.arguments)
    except AbilityError as error:
        return {"error": error.fault.to_payload()}


def list_reasons(answer: dict[str, Any]) -> list[str]:
    """Return why a call or some of its items failed, each reason once."""
    fault = answer.get("error")
    if fault is not None:
        faults = fault.get("fields", [fault])
    else:
        faults = [record["error"] for record in answer.get("results", []) if "error" in record]

    reasons = Counter(fault["reason"] for fault in faults)
    for record in answer.get("results", []):
        if "error" not in record and find_meant(record) is not None:
            reasons["nothing found"] += 1
    return list(reasons)


def format_table(trials: list[Trial]) -> str:
    lines = ["| what is wrong | ability | arguments | reason | mended |", "|---|---|---|---|---|"]
    for call, reasons, _, is_accepted in trials:
        arguments = _UUID.sub("…", shorten_json(call.arguments))
        mended = "yes" if is_accepted else "no"
        told = ", ".join(reasons)
        lines.append(f"| {call.habit} | `{call.ability}` | `{arguments}` | {told} | {mended} |")
    return "\n".join(lines)


def shorten_json(arguments: dict[str, Any]) -> str:
    """Return arguments as JSON, cut where a reader has seen enough."""
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= _ENOUGH else text[:_ENOUGH] + "…"
