"""Memories as kv-memory, the previous system, answered them: ``compat = "kv-memory"``.

Two addresses speak its dialect, ``GET /api/memories/KEY`` and ``GET /api/memories/KEY/bulk``. The
abilities behind them run as always; this module puts their payloads into the previous wrapper and
names. Scores are 0 to 100 there. Its HTTP API knew JSON alone, so the bodies are always JSON.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from pydantic import BaseModel
from starlette.responses import Response

from abilities import schemas
from abilities.adapters.http import get_status, to_response
from abilities.application import Abilities
from abilities.builtin.bulk_read_memory import bulk_read_memory, memory_get
from abilities.declarations.kv_memory import KvBulkReadAnswer, KvFailure, KvMemoryAnswer
from abilities.declarations.refusals import FAULTS, Fault, Mistake, Refused, describe_mistake
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
    """Call `memory_get` or `bulk_read_memory`, and answer as the previous system did."""
    # The previous names are taken from full answers, whatever the settings say.
    arguments = {**arguments, "detail": "full"}

    # As text an answer may hold more than its bound allows as JSON.
    if arguments.get("output_format") == "text":
        arguments["output_format"] = "json"

    reply = await abilities.reply(name, arguments)
    if reply.failed:
        return _to_failed_response(reply.payload["error"])

    try:
        body = await _build_body(abilities, reply.payload)
    except Refused as error:
        return refuse(Fault.from_exception(error))

    return _to_response(body, 200)


def refuse(fault: Fault) -> Response:
    """Return the response to a request that failed before any ability was called."""
    return _to_failed_response(fault.to_payload())


def describe_responses(ability: Ability) -> JsonObject:
    """Return what OpenAPI says about the responses of an address."""
    return {
        "200": _describe("The answer.", _ANSWERS[ability.name]),
        "default": _describe("The call failed as a whole.", KvFailure),
    }


KV_MEMORY = Dialect(call_ability, refuse, describe_responses)


async def _build_body(abilities: Abilities, payload: JsonObject) -> JsonObject:
    """Return the body for a payload. Raises Refused if the links cannot be read."""
    memory = abilities.context.memory

    if "targetMemory" in payload:
        data = translate_walk(payload)
        entries = [data["targetMemory"], *data["associatedMemories"]]
        keys = [entry["key"] for entry in entries]
        links = await memory.read_links(keys)
    else:
        data = translate_memory(payload)
        entries, keys = [data], [payload["key"]]
        links = {payload["key"]: payload["data"].get("links", [])}

    linked_keys = {link["key"] for link in chain.from_iterable(links.values())}
    summaries = await memory.read_summaries(sorted(linked_keys))

    body: JsonObject = {"success": True, "data": data}
    room = abilities.settings.max_response_bytes - json_size(body)
    add_links(entries, [links.get(key, ()) for key in keys], summaries, room)
    return body


def translate_memory(record: JsonObject) -> JsonObject:
    """Return a memory's record in the previous names, without links; a failed one has no text.

    ``linksTotal`` is how many links it has.
    """
    found = record.get("data", {})
    memory: JsonObject = {
        "summary": found.get("summary", ""),
        "text": found.get("content", ""),
        "links": [],
        "linksTotal": found.get("links_total", 0),
    }

    # Nothing is lost in silence: these are ours, and there only if something is not whole.
    for name in ("truncation", "error"):
        if name in record:
            memory[name] = record[name]

    return memory


def translate_walk(payload: JsonObject) -> JsonObject:
    """Return a walk in the previous names, without links."""
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
    """Add to each memory its links, the first memory's best ones first, while they fit.

    ``links`` are those of each memory, as its record shows them, best first. ``room`` is how many
    bytes all of them may take as JSON. A memory without some of its links keeps its ``linksTotal``,
    which is ours; one with all of them has none.
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
    """Return a link in the previous names, with the summary of the memory that it leads to."""
    return {
        "key": link["key"],
        "type": link.get("type", "association"),
        "term": link.get("term", ""),
        "weight": link["link_weight"],
        "summary": summaries.get(link["key"], ""),
    }


def translate_fault(fault: JsonObject) -> JsonObject:
    """Return the previous body for a fault; wrong limits are a list, as its validator had it."""
    message: object = fault["message"]

    if fault["reason"] == "not_found":
        message = "memory not found"  # what clients compare
    elif fault.get("field") not in (None, "key"):
        message = [_build_issue(mistake) for mistake in _list_mistakes(fault)]

    return {"success": False, "message": message}


def _list_mistakes(fault: JsonObject) -> list[JsonObject]:
    """Return all wrong arguments; a fault of one is its own list."""
    only = {name: fault[name] for name in Mistake.model_fields if name in fault}
    return fault.get("fields") or [only]


def _build_issue(mistake: JsonObject) -> JsonObject:
    """Return one wrong argument as the previous validator listed it."""
    message = describe_mistake(Mistake.model_validate(mistake)) or FAULTS[mistake["reason"]].message
    return {"code": "custom", "path": [mistake["field"]], "message": message}


def _to_failed_response(fault: JsonObject) -> Response:
    return _to_response(translate_fault(fault), get_status(fault))


def _to_response(body: JsonObject, status: int) -> Response:
    return to_response(Reply(body, render(body), failed=False), status=status)


def _describe(description: str, model: type[BaseModel]) -> JsonObject:
    schema = schemas.build_model_schema(model)
    return {"description": description, "content": {"application/json": {"schema": schema}}}
