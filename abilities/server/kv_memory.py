"""Responses in the shape of kv-memory, the previous system: ``compat = "kv-memory"``.

Two addresses have this shape, ``GET /api/memories/KEY`` and ``GET /api/memories/KEY/bulk``. The
abilities behind them run as always; this module translates their payloads into the previous
wrapper and field names. There, scores are 0 to 100, and bodies are always JSON.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from pydantic import BaseModel
from starlette.responses import Response

from abilities import definition
from abilities.adapters.http import get_status, to_response
from abilities.application import Abilities
from abilities.builtin.memory_reads import bulk_read_memory, memory_get
from abilities.declarations.kv_memory import KvBulkReadAnswer, KvFailure, KvMemoryAnswer
from abilities.declarations.refusals import FAULTS, Fault, Mistake, describe_mistake
from abilities.declarations.values import JsonObject, json_size
from abilities.definition import Ability
from abilities.helpers.reply.formats import render
from abilities.registry import Reply
from abilities.server.rest import Dialect

_ANSWERS: dict[str, type[BaseModel]] = {
    memory_get.name: KvMemoryAnswer,
    bulk_read_memory.name: KvBulkReadAnswer,
}
_HIGHEST_SCORE = 100


async def call_ability(abilities: Abilities, name: str, arguments: JsonObject) -> Response:
    """Call `memory_get` or `bulk_read_memory`, and answer as the previous system did.

    Raises any refusal of the store.
    """
    # The previous system knew nothing of other namespaces, and its links lead to its own.
    abilities = abilities.for_caller(abilities.context.caller, reads=())

    # Only full answers have all fields to translate, whatever the settings say.
    arguments = {**arguments, "detail": "full"}

    # As text, an answer may contain more than its bound allows as JSON.
    if arguments.get("output_format") == "text":
        arguments["output_format"] = "json"

    reply = await abilities.reply(name, arguments)
    payload = reply.payload
    if reply.failed:
        return _to_failed_response(payload["error"])

    memory = abilities.context.memory
    if "targetMemory" in payload:
        data = translate_walk(payload)
        entries = [data["targetMemory"], *data["associatedMemories"]]
        keys = [entry["key"] for entry in entries]
        links_by_key = await memory.read_links(keys)
        links = [links_by_key.get(key, []) for key in keys]
    else:
        data = translate_memory(payload)
        entries = [data]
        links = [payload["data"].get("links", [])]

    linked_keys = {link["key"] for link in chain.from_iterable(links)}
    summaries = await memory.read_summaries(sorted(linked_keys))

    body: JsonObject = {"success": True, "data": data}
    room = abilities.settings.max_response_bytes - json_size(body)
    add_links(entries, links, summaries, room)
    return _to_response(body, 200)


def refuse(fault: Fault) -> Response:
    """Return the response to a request that is refused outside of the ability."""
    return _to_failed_response(fault.to_payload())


def describe_responses(ability: Ability) -> JsonObject:
    """Return the responses of an address for OpenAPI."""
    return {
        "200": _describe("The answer.", _ANSWERS[ability.name]),
        "default": _describe("The call failed as a whole.", KvFailure),
    }


KV_MEMORY = Dialect(call_ability, refuse, describe_responses)


def translate_memory(record: JsonObject) -> JsonObject:
    """Return a memory's record with the previous names, without links; a failed one has no text.

    ``linksTotal`` is the number of its links.
    """
    found = record.get("data", {})
    memory: JsonObject = {
        "summary": found.get("summary", ""),
        "text": found.get("content", ""),
        "links": [],
        "linksTotal": found.get("links_total", 0),
    }

    # The previous system had no such fields. They are there only if something is incomplete.
    for name in ("truncation", "error"):
        if name in record:
            memory[name] = record[name]

    return memory


def translate_walk(payload: JsonObject) -> JsonObject:
    """Return a walk with the previous names, without links."""
    associated: list[JsonObject] = []
    for record in payload["associatedMemories"]:
        associated.append(
            {
                **_translate_entry(record),
                "depth": record["depth"],
                "combinedScore": round(record["combinedScore"] * _HIGHEST_SCORE, 6),
            }
        )

    metadata = payload["metadata"]
    return {
        "targetMemory": _translate_entry(payload["targetMemory"]),
        "associatedMemories": associated,
        "metadata": {
            "depthReached": metadata["depthReached"],
            "totalRetrieved": metadata["totalRetrieved"],
            "duplicatesSkipped": metadata["duplicatesSkipped"],
        },
    }


def _translate_entry(record: JsonObject) -> JsonObject:
    return {"key": record["key"], **translate_memory(record)}


def add_links(
    memories: Iterable[JsonObject],
    links: Iterable[Iterable[JsonObject]],
    summaries: Mapping[str, str],
    room: int,
) -> None:
    """Add to each memory its links while they fit, beginning with the best of the first memory.

    ``links`` has a list for each memory, as in its record, best first. ``room`` is the number of
    bytes that all of them may take as JSON. ``linksTotal`` is removed from a memory that gets all
    its links: the previous system had no such field.
    """
    for memory, own in zip(memories, links, strict=True):
        for link in own:
            translated = translate_link(link, summaries)
            room -= json_size(translated) + 1  # and a comma
            if room < 0:
                break

            memory["links"].append(translated)

        if memory["linksTotal"] == len(memory["links"]):
            del memory["linksTotal"]


def translate_link(link: JsonObject, summaries: Mapping[str, str]) -> JsonObject:
    """Return a link with the previous names, and the summary of the memory that it leads to."""
    return {
        "key": link["key"],
        "type": link.get("type", "association"),
        "term": link.get("term", ""),
        "weight": link["link_weight"],
        "summary": summaries.get(link["key"], ""),
    }


def translate_fault(fault: JsonObject) -> JsonObject:
    """Return the previous body for a fault; wrong limits are a list, as in its validator."""
    message: object = fault["message"]

    if fault["reason"] == "not_found":
        message = "memory not found"  # clients compare it
    elif fault.get("field") not in (None, "key"):
        # A fault with a single mistake has its fields itself.
        only = {name: fault[name] for name in Mistake.model_fields if name in fault}
        issues: list[JsonObject] = []
        for mistake in fault.get("fields") or [only]:
            text = describe_mistake(Mistake.model_validate(mistake))
            if not text:
                text = FAULTS[mistake["reason"]].message
            issues.append({"code": "custom", "path": [mistake["field"]], "message": text})
        message = issues

    return {"success": False, "message": message}


def _to_failed_response(fault: JsonObject) -> Response:
    return _to_response(translate_fault(fault), get_status(fault))


def _to_response(body: JsonObject, status: int) -> Response:
    return to_response(Reply(body, render(body), failed=False), status=status)


def _describe(description: str, model: type[BaseModel]) -> JsonObject:
    schema = definition.build_schema(model)
    return {"description": description, "content": {"application/json": {"schema": schema}}}
