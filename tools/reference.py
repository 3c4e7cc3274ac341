"""Write `docs/reference.md` from the declarations, with examples that were run: `make write`.

The examples are console blocks, which the tests run again; what differs between runs is shown as
`...`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from abilities import schemas
from abilities.declarations.memory import LinkData, Memory
from abilities.declarations.records import Summary, Truncation
from abilities.declarations.refusals import FAULTS, Fault, Meaning, Reason
from abilities.declarations.values import JsonObject, Model
from abilities.definition import Ability
from tests.support.catalog import BUILT_IN

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference.md"
MAX_LEVELS = 3
"""Levels of objects within objects that a table shows."""

LONGEST_BOUNDS = 20
"""Characters; longer bounds are those of any 64-bit integer and say nothing."""

GRAPH = """\
{"type": "entity", "name": "Ada", "entityType": "person", \
"observations": ["writes compilers", "likes tea"]}
{"type": "entity", "name": "tea", "entityType": "drink", "observations": ["hot"]}
{"type": "relation", "from": "Ada", "to": "tea", "relationType": "drinks"}
"""
"""What is imported before each example; `notes.md` exists too."""
NOTES = "first line\nsecond line\n"
EXAMPLES: dict[str, list[str]] = {
    "file_read_bulk": [
        '{"paths": ["notes.md#L2", "missing.md"]}',
        '{"paths": ["notes.md"], "output_format": "text"}',
        '{"paths": ["notes.md#L2", "missing.md"], "detail": "concise"}',
    ],
    "memory_read_bulk": ['{"targets": [{"type": "stored", "key": "tea"}, {"type": "long_term"}]}'],
    "bulk_read_memory": [
        '{"key": "Ada", "depth": 1}',
        '{"key": "Ada", "detail": "concise", "output_format": "toon"}',
    ],
    "memory_get": ['{"key": "Ada"}'],
    "store_memory": [
        '{"type": "task", "key": "plan", "content": "Test, then ship.", "links": [{"key": "Ada"}]}'
    ],
    "query_memories": ['{"search": "TEA", "limit": 1}'],
    "update_memory": ['{"id": "00000000-0000-4000-8000-000000000000", "importance": "high"}'],
    "delete_memory": ['{"id": "not an id"}'],
    "get_memory_stats": ["{}"],
    "file_list": ['{"pattern": "*.md"}'],
    "read": [
        '{"items": ["notes.md#L2", {"memory": "tea"}, {"search": "first", "in": "*.md"}, '
        '{"note": "monday"}], "detail": "concise"}',
        '{"items": ["notes.md", {"glob": "*.md"}], "plan": true}',
    ],
    "recall": [
        '{"queries": ["What does Ada drink?"]}',
        '{"queries": ["What does Ada drink?"], "detail": "full", "output_format": "text"}',
    ],
    "remember": [
        '{"operations": [{"op": "store", "type": "task", "key": "plan", "content": "Test."}, '
        '{"op": "append", "key": "plan", "content": " Ship."}, {"op": "archive", "key": "none"}]}',
    ],
    "memory_list": ['{"limit": 1}'],
    "memory_history": ['{"key": "tea"}'],
    "memory_restore": ['{"key": "tea", "version": 99}'],
    "memory_changes": ['{"since": 0, "limit": 2}'],
}
_VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids
    r"|\d{4}-\d\d-\d\dT[\d:.]+Z|(?<=\"version\":\")[0-9a-f]{12}"
    r"|(?<=\")\d{4}-\d\d-\d\d(?=\")"
    r"|(?m:^[0-9a-f]{6}(?= [\[{]))"  # boundaries, which depend on all of these
)
_SHARED: dict[str, type[Model]] = {
    "error": Fault,
    "link": LinkData,
    "memory": Memory,
    "summary": Summary,
    "truncation": Truncation,
}
"""The objects that many answers contain, and the page describes once."""

_NAMES = {tuple(model.model_json_schema()["properties"]): name for name, model in _SHARED.items()}
"""The name of a shared object by its fields."""

_HEAD = """\
# Reference

This page shows the arguments and the answer of each ability, with examples and their real output.
`make write` writes it from the declarations. [How it works](guide.md) describes the envelope
and the limits, and a running server describes the HTTP API at `/docs`.
`abilities describe NAME --json` prints the schemas for MCP, OpenAI and Anthropic clients.

The same call returns the same answer from Python, LangChain, MCP, HTTP and the command line.
Arguments in **bold** are required.
"""
_REASONS_HEAD = """\
## Reasons

If the rule for a wrong argument is known, the message says it instead, such as "depth must be 1 to
6."; [Refusals](refusals.md) explains this.
"""


def page() -> str:
    """Return the whole page."""
    abilities = [describe_ability(ability) for ability in BUILT_IN]
    return "\n".join([_HEAD, *abilities, describe_shared_parts()])


def describe_ability(ability: Ability) -> str:
    """Return the section of an ability: what it takes, what it answers, and examples."""
    effects = "reads only"
    if not ability.read_only:
        effects = "writes, destructive" if ability.destructive else "writes"

    examples = [run_example(ability.name, arguments) for arguments in EXAMPLES[ability.name]]
    return "\n".join(
        [
            f"## {ability.name}\n\n*{ability.title}; {effects}.*\n\n{ability.description}\n",
            describe_arguments(schemas.build_schema(ability.input)),
            "Answer:\n\n" + describe_fields(schemas.build_schema(ability.answer)),
            *examples,
        ]
    )


def describe_arguments(schema: JsonObject) -> str:
    """Return the table of arguments; required ones are bold."""
    fields: JsonObject = schema.get("properties", {})
    if not fields:
        return "It takes no arguments.\n"

    required = schema.get("required", [])
    rows: list[str] = []
    for name, field in fields.items():
        shown_name = f"**`{name}`**" if name in required else f"`{name}`"
        rows.append(f"| {shown_name} | {describe_type(field)} | {describe_meaning(field)} |")

    return "\n".join(["| argument | type | meaning |", "|---|---|---|", *rows, ""])


def describe_fields(schema: JsonObject) -> str:
    """Return the table of the fields of an answer."""
    rows = [
        f"| `{name}` | {describe_type(field)} | {describe_meaning(field)} |"
        for name, field in flatten(schema)
    ]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows, ""])


def flatten(schema: JsonObject, prefix: str = "") -> list[tuple[str, JsonObject]]:
    """Return the fields of an object and of the objects in it, three levels deep.

    Of a shared object only the name is shown.
    """
    fields: list[tuple[str, JsonObject]] = []
    has_more_levels = prefix.count(".") < MAX_LEVELS - 1

    for name, field in schema.get("properties", {}).items():
        brackets = "[]" if field.get("type") == "array" else ""
        inner_fields: list[tuple[str, JsonObject]] = []
        shown = field

        for mark, inner in list_alternatives(field.get("items", field)):
            shared = _NAMES.get(tuple(inner["properties"]))
            if shared is not None:
                shown = {**field, "description": f"{describe_meaning(field)} [{shared}](#{shared})"}
            elif has_more_levels:
                inner_fields += flatten(inner, f"{prefix}{name}{brackets}{mark}.")

        fields += [(f"{prefix}{name}", shown), *inner_fields]

    return fields


def list_alternatives(schema: JsonObject) -> list[tuple[str, JsonObject]]:
    """Return the objects that a value may be, each with its mark; the second one is concise."""
    alternatives = schema.get("anyOf", [schema])
    objects = [alternative for alternative in alternatives if alternative.get("properties")]
    return list(zip(("", " (concise)"), objects, strict=False))


def describe_type(field: JsonObject) -> str:
    """Return the type of a field with its limits, for example ``integer, 1..20``."""
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])

    alternatives = [str(alternative.get("type")) for alternative in field.get("anyOf", [])]
    words = str(field.get("type") or " or ".join(dict.fromkeys(alternatives)) or "any")
    if words == "array":
        words = f"array of {describe_type(field.get('items', {}))}"

    bounds = describe_bounds(field)
    if bounds and len(bounds) < LONGEST_BOUNDS:
        words += f", {bounds}"
    if "maxLength" in field:
        words += f", up to {field['maxLength']:,} characters"

    return words


def describe_bounds(field: JsonObject) -> str:
    """Return the least and the greatest value, or number of items, for example ``1..25``."""
    low = field.get("minimum", field.get("minItems"))
    high = field.get("maximum", field.get("maxItems"))
    if low is None and high is None:
        return ""

    return f"{'' if low is None else low}..{'' if high is None else high}"


def describe_meaning(field: JsonObject) -> str:
    """Return a description as it may stand in a table."""
    return str(field.get("description", "")).replace("|", "\\|").replace("\n", " ")


def run_example(name: str, arguments: str) -> str:
    """Return a console block with a call and what it printed, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        project.mkdir()
        (project / "notes.md").write_text(NOTES)
        (project / "memory.jsonl").write_text(GRAPH)
        run_command(project, "import", "memory.jsonl")
        (project / "memory.jsonl").unlink()

        output = run_command(project, "call", name, arguments)

    shown = _VARYING.sub("...", output).rstrip()
    return f"```console\n$ abilities call {name} '{arguments}'\n{shown}\n```\n"


def run_command(project: Path, *arguments: str) -> str:
    """Return what a command prints, run in a project with a store and a home beside it."""
    base = project.parent
    done = subprocess.run(
        [sys.executable, "-m", "abilities", *arguments],
        cwd=project,
        env={
            **os.environ,
            "ABILITIES_STORE_URL": f"sqlite:///{base}/memory.db",
            "HOME": f"{base}/home",
        },
        capture_output=True,
        text=True,
    )
    return done.stdout


def describe_shared_parts() -> str:
    """Return the objects that many answers contain, and every reason that a fault may have."""
    schemas_by_name: dict[str, JsonObject] = {}
    for ability in BUILT_IN:
        schemas_by_name |= find_shared(schemas.build_schema(ability.answer))

    parts = [
        f"## {name}\n\n{model.__doc__}\n\n{describe_fields(schemas_by_name[name])}"
        for name, model in _SHARED.items()
    ]
    head = ["| reason | code | retryable | message |", "|---|---|---|---|"]
    rows = [_describe_reason(reason, meaning) for reason, meaning in FAULTS.items()]
    return "\n".join([*parts, _REASONS_HEAD, *head, *rows, ""])


def find_shared(schema: JsonObject) -> dict[str, JsonObject]:
    """Return the shared objects in a schema by their names."""
    found: dict[str, JsonObject] = {}
    for field in schema.get("properties", {}).values():
        for _, inner in list_alternatives(field.get("items", field)):
            name = _NAMES.get(tuple(inner["properties"]))
            found |= find_shared(inner)
            if name is not None:
                found[name] = inner

    return found


def _describe_reason(reason: Reason, meaning: Meaning) -> str:
    retryable = "yes" if meaning.retryable else ""
    return f"| `{reason}` | {meaning.code} | {retryable} | {meaning.message} |"
