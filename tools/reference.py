"""Write `docs/reference.md` from the declarations, with examples that were run: `make write`.

The examples are console blocks, which the tests run again; what differs between runs is shown as
`...`.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from abilities import definition
from abilities.declarations.memory import LinkData, Memory
from abilities.declarations.refusals import FAULTS, Fault, Summary, Truncation
from abilities.declarations.values import JsonObject, Model
from abilities.definition import Ability
from tests.support.catalog import BUILT_IN

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference.md"
MAX_LEVELS = 3
"""Levels of objects within objects that an answer shows."""

LONGEST_BOUNDS = 19
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
    "file_read_bulk": ['{"paths": ["notes.md#L2", "missing.md"], "detail": "concise"}'],
    "memory_read_bulk": [
        '{"targets": [{"type": "stored", "key": "tea"}, {"type": "long_term"}], '
        '"detail": "concise"}'
    ],
    "bulk_read_memory": ['{"key": "Ada", "depth": 1, "detail": "concise"}'],
    "memory_get": ['{"key": "Ada"}'],
    "store_memory": [
        '{"type": "task", "key": "plan", "content": "Test, then ship.", "detail": "concise"}'
    ],
    "query_memories": ['{"search": "TEA", "limit": 1, "detail": "concise"}'],
    "update_memory": ['{"key": "tea", "importance": "high", "detail": "concise"}'],
    "delete_memory": ['{"key": "tea", "detail": "concise"}'],
    "get_memory_stats": ["{}"],
    "file_list": ['{"pattern": "*.md"}'],
    "read": [
        '{"items": [{"memory": "tea"}, {"search": "first", "in": "*.md"}], "detail": "concise"}',
    ],
    "recall": ['{"queries": ["What does Ada drink?"]}'],
    "remember": [
        '{"operations": [{"op": "append", "key": "tea", "content": " and green"}, '
        '{"op": "archive", "key": "none"}]}',
    ],
    "memory_list": ['{"limit": 1}'],
    "memory_history": ['{"key": "tea"}'],
    "memory_restore": ['{"key": "tea", "version": 99}'],
    "memory_changes": ['{"since": 1}'],
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
# Abilities

Every ability with its arguments, its answer and a call that was run. It answers the same over
every surface. [How it works](guide.md) explains the envelope and the limits.

Arguments in **bold** are required. A field without a type is a string. What several abilities have
in *common* is in the next two lists, or a part of [memory](#memory) or [error](#error).
A [concise](guide.md#concise-answers) record is flat: it has fewer fields, and `next`, `reason` and
`message` in place of objects. Fields that only it has are shown too.
"""
_REASONS_HEAD = """\
## Reasons

The reasons of failures by their codes. If the rule for a wrong argument is known, the message says
it instead, as in "depth must be 1 to 6."
"""
_COMMON = 3
"""What as many abilities have in common is described before all of them."""


class Group(NamedTuple):
    """The fields of one object of an answer, with the path to it."""

    path: str
    is_concise: bool
    fields: dict[str, JsonObject]


class Known(NamedTuple):
    """What the page describes in one place for all abilities."""

    arguments: dict[str, str]
    """Rows of common arguments by their names."""

    fields: dict[str, str]
    """Rows of common fields of answers by their names."""

    shared: dict[str, dict[str, str]]
    """Rows of the shared objects by their names, and by those of their fields."""

    groups: dict[tuple[str, ...], str]
    """Abilities by the objects that they are the first to describe."""

    first_arguments: dict[str, str]
    """Abilities by the rows of arguments that they are the first to have."""

    first_fields: dict[str, str]
    """Abilities by the rows of fields that they are the first to have."""


def page() -> str:
    """Return the whole page."""
    inputs = [definition.build_schema(ability.input) for ability in BUILT_IN]
    answers = [definition.build_schema(ability.answer) for ability in BUILT_IN]
    known = Known(
        find_common([[Group("", False, schema.get("properties", {}))] for schema in inputs]),
        find_common([list_groups(schema) for schema in answers]),
        list_shared_rows(),
        {},
        {},
        {},
    )
    described = {*known.shared["memory"].values(), *known.shared["error"].values()}
    fields = {name: row for name, row in known.fields.items() if row not in described}
    parts = [
        _HEAD,
        describe_common("argument", known.arguments),
        describe_common("field", fields),
        *(describe_ability(ability, known) for ability in BUILT_IN),
        describe_shared_parts(),
    ]
    return "\n".join(parts)


def find_common(abilities: list[list[Group]]) -> dict[str, str]:
    """Return the rows of the fields that several abilities have, by name.

    If a name has several meanings, the most frequent one is common.
    """
    owners: Counter[str] = Counter()
    rows: Counter[tuple[str, str]] = Counter()
    for groups in abilities:
        owners.update({name for group in groups for name in group.fields})
        described = [
            (name, describe_argument(f"`{name}`", field))
            for group in groups
            for name, field in group.fields.items()
        ]
        rows.update(dict.fromkeys(described, 1))

    common: dict[str, str] = {}
    for (name, row), count in rows.most_common():
        if min(owners[name], count) >= _COMMON:
            common.setdefault(name, row)

    return common


def is_same(row: str, other: str | None) -> bool:
    """Return whether two rows say the same; one may be of a required argument."""
    return other is not None and row.replace("**", "") == other.replace("**", "")


def find_first(row: str, common: str | None, owner: str, firsts: dict[str, str]) -> str:
    """Return where a row is described, in words; nothing if its place is here.

    The place of a row that is not common is the first ability that has it.
    """
    if is_same(row, common):
        return "*common*"

    for other, first in firsts.items():
        if is_same(row, other):
            return "as above" if first == owner else f"as in `{first}`"

    firsts[row] = owner
    return ""


def describe_common(kind: str, rows: dict[str, str]) -> str:
    """Return the section of the common arguments, or of the common fields of answers."""
    return "\n".join([f"## Common {kind}s", "", *rows.values(), ""])


def list_shared_rows() -> dict[str, dict[str, str]]:
    """Return the rows of each shared object by its name, and by those of its fields."""
    rows: dict[str, dict[str, str]] = {}
    for ability in BUILT_IN:
        for name, schema in find_shared(definition.build_schema(ability.answer)).items():
            (group, *_) = list_groups(schema)
            rows[name] = {
                key: describe_argument(f"`{key}`", each) for key, each in group.fields.items()
            }

    return rows


def describe_ability(ability: Ability, known: Known) -> str:
    """Return the section of an ability: what it takes, what it answers, and an example.

    Objects that an earlier ability has described are named with that ability's name.
    """
    effects = "reads only"
    if not ability.read_only:
        effects = "writes, destructive" if ability.destructive else "writes"

    examples = [run_example(ability.name, arguments) for arguments in EXAMPLES[ability.name]]
    return "\n".join(
        [
            f"## {ability.name}\n\n*{ability.title}; {effects}.*\n\n{ability.description}\n",
            describe_arguments(definition.build_schema(ability.input), ability.name, known),
            "Answer:\n",
            describe_answer(definition.build_schema(ability.answer), ability.name, known),
            *examples,
        ]
    )


def describe_arguments(schema: JsonObject, owner: str, known: Known) -> str:
    """Return the list of arguments; its last rows name those that are described elsewhere."""
    fields: JsonObject = schema.get("properties", {})
    if not fields:
        return "It takes no arguments.\n"

    required = schema.get("required", [])
    rows: list[str] = []
    described: dict[str, list[str]] = {}  # names by the places that describe them
    for name, field in fields.items():
        shown_name = f"**`{name}`**" if name in required else f"`{name}`"
        row = describe_argument(shown_name, field)
        place = find_first(row, known.arguments.get(name), owner, known.first_arguments)
        if place:
            described.setdefault(place, []).append(shown_name)
        else:
            rows.append(row)

    return "\n".join(["Arguments:", "", *rows, *list_places(described), ""])


def describe_argument(shown_name: str, field: JsonObject) -> str:
    """Return the row of an argument or a field: its name and type, and its meaning."""
    kind = describe_type(field)
    if kind == "string":
        kind = ""
    elif kind.startswith("string, "):
        kind = kind.removeprefix("string, ")

    return f"- {f'{shown_name} {kind}'.rstrip()}: {describe_meaning(field)}".removesuffix(": ")


def describe_answer(schema: JsonObject, owner: str, known: Known) -> str:
    """Return the lists of an answer, object by object.

    Fields that are described elsewhere are named only: the common ones, and those of shared
    objects. Of a concise record only the fields are shown that its full record lacks.
    """
    rows: list[str] = []
    above: set[str] = set()
    repeated: dict[str, list[str]] = {}  # the objects that earlier abilities have described

    for group in list_groups(schema):
        fields = {name: describe_argument(f"`{name}`", each) for name, each in group.fields.items()}
        mark = f"**`{group.path}`**"
        first = known.groups.setdefault((group.path, *fields.values()), owner)
        if group.path and first != owner:
            repeated.setdefault(f"as in `{first}`", []).append(mark)
            above.update(fields)
            continue

        if group.is_concise:
            mark = f"**concise `{group.path}`**"
            fields = {name: row for name, row in fields.items() if name not in above}
            if all(is_same(row, known.fields.get(name)) for name, row in fields.items()):
                continue

        above.update(fields)
        words = ""
        for name, shared in known.shared.items():
            if name != owner and shared.keys() <= fields.keys():
                fields = {key: row for key, row in fields.items() if row != shared.get(key)}
                words = f": the fields of [{name}](#{name})"

        if group.path:
            rows += ["", f"{mark}{words}", ""]

        described: dict[str, list[str]] = {}  # names by the places that describe them
        for name, row in fields.items():
            place = find_first(row, known.fields.get(name), owner, known.first_fields)
            if place:
                described.setdefault(place, []).append(f"`{name}`")
            else:
                rows.append(row)

        rows += list_places(described)

    ends = [f"\n{', '.join(dict.fromkeys(marks))}: {place}" for place, marks in repeated.items()]
    return "\n".join([*rows, *ends, ""])


def list_places(names: dict[str, list[str]]) -> list[str]:
    """Return a row per place, with the names that it describes."""
    return [f"- {', '.join(each)}: {place}" for place, each in names.items()]


def list_groups(schema: JsonObject, path: str = "", is_concise: bool = False) -> list[Group]:
    """Return an object and the objects in it, three levels deep, each after those around it.

    Of a shared object only the name is shown.
    """
    fields: dict[str, JsonObject] = {}
    inner_groups: list[Group] = []
    has_more_levels = path.count(".") + bool(path) < MAX_LEVELS

    for name, field in schema.get("properties", {}).items():
        brackets = "[]" if field.get("type") == "array" else ""
        inner_path = f"{path}.{name}{brackets}".removeprefix(".")
        fields[name] = field

        for is_second, inner in list_alternatives(field.get("items", field)):
            shared = _NAMES.get(tuple(inner["properties"]))
            if shared is not None:
                meaning = f"{describe_meaning(field)} [{shared}](#{shared})"
                fields[name] = {**field, "description": meaning}
            elif has_more_levels:
                inner_groups += list_groups(inner, inner_path, is_concise or is_second)

    return [Group(path, is_concise, fields), *inner_groups]


def list_alternatives(schema: JsonObject) -> list[tuple[bool, JsonObject]]:
    """Return the objects that a value may be, and whether each is the second, concise one."""
    alternatives = schema.get("anyOf", [schema])
    objects = [alternative for alternative in alternatives if alternative.get("properties")]
    return list(zip((False, True), objects, strict=False))


def describe_type(field: JsonObject) -> str:
    """Return the type of a field with its limits, for example ``integer, 1..20``."""
    if "enum" in field:
        *values, last = [f"`{value}`" for value in field["enum"]]
        return f"{', '.join(values)} or {last}" if values else last

    alternatives = [str(alternative.get("type")) for alternative in field.get("anyOf", [])]
    words = str(field.get("type") or " or ".join(dict.fromkeys(alternatives)) or "any")
    if words == "array":
        inner, _, limits = describe_type(field.get("items", {})).partition(", ")
        words = f"({inner})[]" if " " in inner else f"{inner}[]"
        if limits:
            words += f", each {limits}"

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
    """Return a description on one line."""
    return str(field.get("description", "")).replace("\n", " ")


def run_example(name: str, arguments: str) -> str:
    """Return a console block with a call and what it printed, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        project.mkdir()
        (project / "notes.md").write_text(NOTES)
        (project / "memory.jsonl").write_text(GRAPH)
        run_command(project, "import", "memory.jsonl", check=True)
        (project / "memory.jsonl").unlink()

        output = run_command(project, "call", name, arguments)

    shown = _VARYING.sub("...", output).rstrip()
    return f"```console\n$ abilities call {name} '{arguments}'\n{shown}\n```\n"


def run_command(project: Path, *arguments: str, check: bool = False) -> str:
    """Return what a command prints, run in a project with a store and a home beside it.

    Raises CalledProcessError if the command must work, and fails.
    """
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
        check=check,
    )
    return done.stdout


def describe_shared_parts() -> str:
    """Return the objects that many answers contain, and every reason that a fault may have."""
    schemas_by_name: dict[str, JsonObject] = {}
    for ability in BUILT_IN:
        schemas_by_name |= find_shared(definition.build_schema(ability.answer))

    parts: list[str] = []
    for name, model in _SHARED.items():
        answer = describe_answer(schemas_by_name[name], name, Known({}, {}, {}, {}, {}, {}))
        parts.append(f"## {name}\n\n{model.__doc__}\n\n{answer}")

    return "\n".join([*parts, _REASONS_HEAD, describe_reasons()])


def describe_reasons() -> str:
    """Return the list of the reasons, grouped by their codes."""
    lines: dict[str, list[str]] = {}
    for reason, meaning in FAULTS.items():
        retryable = " *Retryable.*" if meaning.retryable else ""
        line = f"- `{reason}`: {meaning.message}{retryable}"
        lines.setdefault(meaning.code, [f"### {meaning.code}", ""]).append(line)

    return "\n".join(chain.from_iterable([*each, ""] for each in lines.values()))


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
