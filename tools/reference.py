"""Write `docs/reference.md` from the declarations, with examples that were run: `make reference`.

The examples are console blocks, which the tests run again; what differs between two runs is shown as '...'.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from abilities import schemas
from abilities.builtin.catalog import BUILT_IN
from abilities.declarations.faults import FAULTS, Fault
from abilities.declarations.model import Model
from abilities.declarations.records import Truncation
from abilities.definition import Ability

PAGE = Path(__file__).parent.parent / "docs" / "reference.md"
GRAPH = """\
{"type": "entity", "name": "Ada", "entityType": "person", "observations": ["writes compilers", "likes tea"]}
{"type": "entity", "name": "tea", "entityType": "drink", "observations": ["hot"]}
{"type": "relation", "from": "Ada", "to": "tea", "relationType": "drinks"}
"""
"""What is imported before each example; `notes.md` is there too."""
NOTES = "first line\nsecond line\n"
EXAMPLES: dict[str, list[str]] = {
    "file_read_bulk": ['{"paths": ["notes.md#L2", "missing.md"]}'],
    "memory_read_bulk": ['{"targets": [{"type": "stored", "key": "tea"}, {"type": "long_term"}]}'],
    "bulk_read_memory": ['{"key": "Ada", "depth": 1}', '{"key": "Ada", "output_format": "toon"}'],
    "memory_get": ['{"key": "Ada"}'],
    "store_memory": [
        '{"type": "task", "key": "plan", "content": "Test, then ship.", "links": [{"key": "Ada"}]}'
    ],
    "query_memories": ['{"search": "TEA", "limit": 1}'],
    "update_memory": ['{"id": "00000000-0000-4000-8000-000000000000", "importance": "high"}'],
    "delete_memory": ['{"id": "not an id"}'],
    "get_memory_stats": ["{}"],
    "file_list": ['{"pattern": "*.md"}'],
}
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=\"version\":\")[0-9a-f]{12}"
)
_SHARED: dict[str, type[Model]] = {"error": Fault, "truncation": Truncation}
"""What many answers hold, and the page describes once."""
_HEAD = """\
# Reference

Every ability: what it takes, what it answers, and calls that were run. Written from the declarations by `make
reference`; [README](../README.md) has the envelope and the limits, `/docs` of a server the HTTP API, and
`abilities describe NAME --json` the schemas for MCP, OpenAI and Anthropic clients.

The same call gives the same answer from Python, LangChain, MCP, HTTP and the command line. Arguments in **bold** are
required.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *map(_ability, BUILT_IN), _shared()])


def _ability(ability: Ability) -> str:
    marks = (
        "reads only"
        if ability.read_only
        else "writes" + (", destructive" if ability.destructive else "")
    )
    parts = [
        f"## {ability.name}\n\n*{ability.title}; {marks}.*\n\n{ability.description}\n",
        _arguments(schemas.build_input_schema(ability)),
        "Answer:\n\n" + _fields(schemas.build_output_schema(ability)),
        *(_example(ability.name, arguments) for arguments in EXAMPLES[ability.name]),
    ]
    return "\n".join(parts)


def _arguments(schema: dict[str, Any]) -> str:
    fields = schema.get("properties", {})
    if not fields:
        return "It takes no arguments.\n"
    required = schema.get("required", [])
    rows = [
        f"| {f'**`{name}`**' if name in required else f'`{name}`'} | {_kind(field)} | {_words(field)} |"
        for name, field in fields.items()
    ]
    return "\n".join(["| argument | is | what |", "|---|---|---|", *rows, ""])


def _fields(schema: dict[str, Any]) -> str:
    rows = [f"| `{name}` | {_kind(field)} | {_words(field)} |" for name, field in _flat(schema)]
    return "\n".join(["| field | is | what |", "|---|---|---|", *rows, ""])


def _flat(schema: dict[str, Any], before: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The fields of an object and of what is in it, three levels deep."""
    rows: list[tuple[str, dict[str, Any]]] = []
    for name, field in schema.get("properties", {}).items():
        rows.append((f"{before}{name}", field))
        inner = field.get("items", field)
        if inner.get("properties") and name not in _SHARED and before.count(".") < 2:
            rows += _flat(inner, f"{before}{name}{'[]' if field.get('type') == 'array' else ''}.")
    return rows


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    kind = str(
        field.get("type")
        or " or ".join(str(one.get("type")) for one in field.get("anyOf", []))
        or "any"
    )
    if kind == "array":
        kind = f"array of {_kind(field.get('items', {}))}"
    low, high = (
        field.get("minimum", field.get("minItems")),
        field.get("maximum", field.get("maxItems")),
    )
    bounds = (
        f"{'' if low is None else low}..{'' if high is None else high}"
        if (low, high) != (None, None)
        else ""
    )
    longest = f"up to {field['maxLength']:,} characters" if "maxLength" in field else ""
    return ", ".join(part for part in (kind, bounds if len(bounds) < 20 else "", longest) if part)


def _words(field: dict[str, Any]) -> str:
    return str(field.get("description", "")).replace("|", "\\|").replace("\n", " ")


def _example(name: str, arguments: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        (base / "notes.md").write_text(NOTES)
        (base / "memory.jsonl").write_text(GRAPH)
        given = {
            **os.environ,
            "ABILITIES_STORE_URL": f"sqlite:///{base}/memory.db",
            "HOME": f"{base}/home",
        }

        def run(*command: str) -> str:
            done = subprocess.run(
                [sys.executable, "-m", "abilities", *command],
                cwd=base,
                env=given,
                capture_output=True,
                text=True,
            )
            return done.stdout

        run("import", "memory.jsonl")
        (base / "memory.jsonl").unlink()
        shown = _VARYING.sub("...", run("call", name, arguments)).rstrip()
    return f"```console\n$ abilities call {name} '{arguments}'\n{shown}\n```\n"


def _shared() -> str:
    """The parts that many answers hold, and every reason that a failure may have."""
    parts = [
        f"## {name}\n\n{model.__doc__}\n\n{_fields(model.model_json_schema())}"
        for name, model in _SHARED.items()
    ]
    rows = [f"| `{reason}` | {code} | {sentence} |" for reason, (code, sentence) in FAULTS.items()]
    return "\n".join(
        [*parts, "## Reasons\n", "| reason | code | message |", "|---|---|---|", *rows, ""]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {json.dumps(str(PAGE.relative_to(PAGE.parent.parent)))}.")
