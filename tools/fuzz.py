"""Coverage-guided fuzzing with atheris: ``python -m tools.fuzz TARGET [libFuzzer's options]``, as `make torture` does.

Whatever the bytes say, nothing is raised but Refused, and each answer keeps its promise. Targets: the door (arguments
of every ability, and paths), the reader (ranges of files of any bytes), the walk, and the renderers.
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
    from abilities.builtin.catalog import BUILT_IN
    from abilities.cli.drawing import Drawing, as_mermaid, draw_walk
    from abilities.declarations.faults import FAULTS, Refused
    from abilities.helpers.files.paths import parse_path
    from abilities.helpers.files.window import read_piece
    from abilities.helpers.reply.render import json_size, render
    from abilities.helpers.text.ranges import WHOLE, Range, parse_range
    from abilities.helpers.walk import State, Walk, WalkLimits, WalkLink
    from abilities.registry import validate_arguments

FILE = os.memfd_create("fuzz")
CODES = {code for code, _ in FAULTS.values()}
"""The seven."""
MANY = 12
RANKED_LAST = {"absent": -1.0, "invalid": -2.0}


def door(raw: bytes) -> None:
    """Arguments of an ability: taken, or refused with one of the seven codes; and a path, taken apart."""
    if not raw:
        return
    text = raw[1:].decode("utf-8", "surrogateescape" if raw[0] & 1 else "replace")
    try:
        parsed = parse_path(text)
        assert not {"", ".", ".."} & set(parsed.parts) and "\0" not in parsed.path
    except Refused as error:
        assert FAULTS[error.reason][0] in CODES
    try:
        arguments = orjson.loads(raw[1:])
    except orjson.JSONDecodeError:
        arguments = {
            "paths": [text],
            "key": text,
            "targets": [text],
            "content": text,
            "type": "core",
            "pattern": text,
        }
    try:
        validate_arguments(BUILT_IN[raw[0] % len(BUILT_IN)].input, arguments)
    except AbilityError as error:
        assert error.fault.code in CODES
    except Refused as error:
        assert FAULTS[error.reason][0] in CODES


def reader(raw: bytes) -> None:
    """A file of any bytes, read whole, from lines and from byte positions, in windows of any size."""
    provider = atheris.FuzzedDataProvider(raw)
    chars, kind, first, last = (provider.ConsumeIntInRange(0, most) for most in (64, 3, 40, 40))
    content = provider.ConsumeBytes(4096)
    os.ftruncate(FILE, 0)
    os.pwrite(FILE, content, 0)
    os.lseek(FILE, 0, os.SEEK_SET)
    asked = [
        WHOLE,
        Range(first_line=first + 1, last_line=first + 1 + last),
        Range(start=first, end=first + last),
    ]
    try:
        asked.append(parse_range(f"byte={first}"))
        piece = read_piece(FILE, len(content), asked[kind], chars + 1, lambda: None)
    except Refused as error:
        assert FAULTS[error.reason][0] in CODES
        return
    assert len(piece.text) <= chars + 1
    assert piece.rest or piece.total_chars == len(piece.text)


def _graph(raw: bytes) -> tuple[dict[str, list[WalkLink]], WalkLimits]:
    provider = atheris.FuzzedDataProvider(raw)
    limits = WalkLimits(*(provider.ConsumeIntInRange(1, most) for most in (6, 5, MANY)))
    links: dict[str, list[WalkLink]] = {}
    states: list[State] = ["present", "present", "present", "absent", "invalid"]
    for _ in range(provider.ConsumeIntInRange(0, 40)):
        source, target, weight, state = (
            provider.ConsumeIntInRange(0, most) for most in (MANY, MANY, 4, 4)
        )
        score = RANKED_LAST[states[state]] if states[state] in RANKED_LAST else weight / 4
        links.setdefault(f"m{source}", []).append(
            WalkLink(f"m{target}", weight / 4, "t", score, states[state])
        )
    for found in links.values():
        found.sort(key=lambda link: (-link.score, -link.weight, link.key))
    return links, limits


def _walked(links: dict[str, list[WalkLink]], limits: WalkLimits) -> Any:
    conversation = Walk("m0", limits).run()
    told: list[WalkLink] | None = None
    while True:
        try:
            asked = conversation.send(told) if told is not None else next(conversation)
        except StopIteration as end:
            return end.value
        told = links.get(asked.key, [])[asked.offset : asked.offset + 3]


def walk(raw: bytes) -> None:
    """Each memory once, within the limits, each on a link that is there."""
    links, limits = _graph(raw)
    walked = _walked(links, limits)
    keys = [step.key for step in walked.steps]
    assert keys[0] == "m0" and len(set(keys)) == len(keys) <= limits.total
    for step in walked.steps:
        assert step.depth <= limits.depth
        if step.parent is not None:
            assert step.depth == step.parent.depth + 1 and step.link in links[step.parent.key]
    assert not set(keys) & {cut.key for cut in walked.frontier}


def renderers(raw: bytes) -> None:
    """JSON of exactly the size that was counted, TOON, and a picture, of any texts and any walk."""
    provider = atheris.FuzzedDataProvider(raw)
    texts = [provider.ConsumeUnicodeNoSurrogates(40) for _ in range(4)]
    payload = {
        "results": [
            {"input": text, "data": {"content": text * 2, "n": n}} for n, text in enumerate(texts)
        ]
    }
    assert len(render(payload).encode()) == json_size(payload)
    assert orjson.loads(render(payload)) == payload
    assert render(payload, "toon")
    links, limits = _graph(raw)
    drawing = draw_walk(_walked(links, limits))
    nodes = [replace(node, key=texts[n % 4] + node.key) for n, node in enumerate(drawing.nodes)]
    names = {old.key: new.key for old, new in zip(drawing.nodes, nodes, strict=True)}
    edges = [
        edge._replace(source=names[edge.source], target=names[edge.target])
        for edge in drawing.edges
    ]
    lines = as_mermaid(Drawing(nodes, edges)).splitlines()
    assert len(lines) == len(nodes) + len(edges) + 2, "a text broke out of its line"


TARGETS = {target.__name__: target for target in (door, reader, walk, renderers)}


def main() -> None:
    """Fuzz one target."""
    name, *options = sys.argv[1:]
    asyncio.set_event_loop(asyncio.new_event_loop())
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
