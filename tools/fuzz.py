"""Coverage-guided fuzzing with atheris, as `make torture` runs it.

    python -m tools.fuzz TARGET [libFuzzer's options]

Whatever the bytes are, nothing is raised but Refused, and every answer keeps its promise. Targets:
``arguments`` (of every ability, and paths), ``reader`` (ranges of files of any bytes), ``walk`` and
``renderers``.
"""

import asyncio
import importlib
import os
import sys
from dataclasses import replace
from typing import Any

import orjson

atheris: Any = importlib.import_module("atheris")  # it has no types
with atheris.instrument_imports(include=["abilities"]):
    from abilities import AbilityError
    from abilities.cli.drawing import Drawing, as_mermaid, draw_walk
    from abilities.declarations.refusals import FAULTS, Refused
    from abilities.declarations.values import json_size
    from abilities.definition import validate_arguments
    from abilities.helpers.files.confinement import parse_path
    from abilities.helpers.files.window import read_piece
    from abilities.helpers.reply.formats import parse_text, render
    from abilities.helpers.text import WHOLE, Range, parse_range
    from abilities.helpers.walk import State, Walk, WalkLimits, WalkLink, compute_rank
    from tests.support.catalog import BUILT_IN

FILE = os.memfd_create("fuzz")
CODES = {meaning.code for meaning in FAULTS.values()}
"""The seven codes that a fault may have."""

KEYS = 12
"""Memories of a graph."""

LINKS = 40
"""The most links of a graph."""

PAGE = 3
"""Links that a walk is given at once."""

STATES: list[State] = ["present", "present", "present", "absent", "invalid"]
RANKS_OF_LAST: dict[State, int] = {"absent": -1, "invalid": -2}


def arguments(raw: bytes) -> None:
    """Any arguments are accepted, or refused with one of the seven codes; and so is any path."""
    if not raw:
        return

    selector = raw[0]
    text = raw[1:].decode("utf-8", "surrogateescape" if selector & 1 else "replace")
    check_path(text)

    ability = BUILT_IN[selector % len(BUILT_IN)]
    try:
        values = orjson.loads(raw[1:])
    except orjson.JSONDecodeError:
        values = {
            "paths": [text],
            "key": text,
            "targets": [text],
            "content": text,
            "type": "core",
            "pattern": text,
        }

    try:
        validate_arguments(ability.input, values)
    except AbilityError as error:
        assert error.fault.code in CODES
    except Refused as error:
        assert FAULTS[error.reason].code in CODES


def check_path(text: str) -> None:
    """A path that is accepted has only plain components."""
    try:
        parsed = parse_path(text)
    except Refused as error:
        assert FAULTS[error.reason].code in CODES
        return

    assert not {"", ".", ".."} & set(parsed.parts)
    assert "\0" not in parsed.path


def reader(raw: bytes) -> None:
    """A file of any bytes is read whole, from lines and from bytes, in windows of any size."""
    provider = atheris.FuzzedDataProvider(raw)
    max_chars = provider.ConsumeIntInRange(0, 64) + 1
    kind = provider.ConsumeIntInRange(0, 3)
    first = provider.ConsumeIntInRange(0, 40)
    length = provider.ConsumeIntInRange(0, 40)
    redacts = provider.ConsumeBool()
    content = provider.ConsumeBytes(4096)

    os.ftruncate(FILE, 0)
    os.pwrite(FILE, content, 0)
    os.lseek(FILE, 0, os.SEEK_SET)

    try:
        ranges = [
            WHOLE,
            Range(first_line=first + 1, last_line=first + 1 + length),
            Range(start=first, end=first + length),
            parse_range(f"byte={first}"),
        ]
        piece = read_piece(
            FILE, len(content), ranges[kind], max_chars, lambda: None, redacts=redacts
        )
    except Refused as error:
        assert FAULTS[error.reason].code in CODES
        return

    assert len(piece.text) <= max_chars or piece.marks
    assert piece.rest or piece.total_chars == len(piece.text)


def walk(raw: bytes) -> None:
    """A walk returns each memory once, within the limits, each on a link that exists."""
    links, limits = build_graph(raw)
    outcome = run_walk(links, limits)

    keys = [step.key for step in outcome.steps]
    assert keys[0] == "m0"
    assert len(set(keys)) == len(keys) <= limits.total

    for step in outcome.steps:
        assert step.depth <= limits.depth
        if step.parent is not None:
            assert step.depth == step.parent.depth + 1
            assert step.link in links[step.parent.key]

    assert not set(keys) & {candidate.key for candidate in outcome.frontier}


def renderers(raw: bytes) -> None:
    """JSON has exactly the size that was counted, and no text breaks out of its place."""
    provider = atheris.FuzzedDataProvider(raw)
    texts = [provider.ConsumeUnicodeNoSurrogates(40) for _ in range(4)]
    records = [
        {"input": text, "data": {"content": text * 2, "n": n}} for n, text in enumerate(texts)
    ]
    payload = {"results": records}

    assert len(render(payload).encode()) == json_size(payload)
    assert orjson.loads(render(payload)) == payload
    assert parse_text(render(payload, "text")) == payload
    assert render(payload, "toon")

    drawing = rename_nodes(draw_walk(run_walk(*build_graph(raw))), texts)
    lines = as_mermaid(drawing).splitlines()
    assert len(lines) == len(drawing.nodes) + len(drawing.edges) + 2, "a text broke out of its line"


def build_graph(raw: bytes) -> tuple[dict[str, list[WalkLink]], WalkLimits]:
    """Return some memories with their links, best first, and the limits of a walk."""
    provider = atheris.FuzzedDataProvider(raw)
    limits = WalkLimits(
        provider.ConsumeIntInRange(1, 6),
        provider.ConsumeIntInRange(1, 5),
        provider.ConsumeIntInRange(1, KEYS),
    )
    links: dict[str, list[WalkLink]] = {}

    for _ in range(provider.ConsumeIntInRange(0, LINKS)):
        source = f"m{provider.ConsumeIntInRange(0, KEYS)}"
        target = f"m{provider.ConsumeIntInRange(0, KEYS)}"
        weight: float = provider.ConsumeIntInRange(0, 4) / 4
        state = STATES[provider.ConsumeIntInRange(0, len(STATES) - 1)]

        rank = RANKS_OF_LAST.get(state, compute_rank(weight, 1.0))
        links.setdefault(source, []).append(WalkLink(target, weight, "t", rank, state))

    for of_source in links.values():
        of_source.sort(key=lambda link: (-link.rank, -link.weight, link.key))

    return links, limits


def run_walk(links: dict[str, list[WalkLink]], limits: WalkLimits) -> Any:
    """Return the outcome of a walk, with its requests answered a few links at a time."""
    conversation = Walk("m0", limits).run()

    try:
        request = next(conversation)
        while True:
            page = links.get(request.key, [])[request.offset : request.offset + PAGE]
            request = conversation.send(page)
    except StopIteration as end:
        return end.value


def rename_nodes(drawing: Drawing, texts: list[str]) -> Drawing:
    """Put hostile texts into the names of a drawing's nodes."""
    names = {node.key: texts[n % 4] + node.key for n, node in enumerate(drawing.nodes)}
    nodes = [replace(node, key=names[node.key]) for node in drawing.nodes]
    edges = [
        edge._replace(source=names[edge.source], target=names[edge.target])
        for edge in drawing.edges
    ]
    return Drawing(nodes, edges)


TARGETS = {target.__name__: target for target in (arguments, reader, walk, renderers)}


def main() -> None:
    """Fuzz one target."""
    name, *options = sys.argv[1:]
    asyncio.set_event_loop(asyncio.new_event_loop())
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
