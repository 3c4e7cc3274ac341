"""Editing JSON with comments: one member goes in or out, and nothing else moves."""

import json
import random
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from abilities.clients import jsonc
from abilities.clients.entry import Unparsable
from abilities.clients.jsonc import parse
from tests.support.tier import size

PATH = ("mcpServers", "abilities")
VALUE = {"command": "/bin/abilities", "args": ["mcp"], "env": {"A": 'é " \\ // x'}}
OTHER = {"command": "other"}
EXAMPLES = size("ABILITIES_TEST_EXAMPLES", quick=15, full=150)

tried = settings(max_examples=EXAMPLES, deadline=None)

NAMES = st.sampled_from(["a", "b", "theme", "x y", "é", 'q"', "mcpServers", "command", "//", ""])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.sampled_from([0.5, "", "text", "a // b", "/* */", "\\", '"', "}", "\u2028", "\ud800"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SERVERS = st.dictionaries(st.sampled_from(["one", "two", "x y"]), VALUES, max_size=2)

PLAIN_SPACE = ("", "", "", " ", "\n", "\n  ", "\t", "\r\n    ")
COMMENTS = ("// c\n", ' // it\'s "x" {  \n', "/* c */", "/* a\n b */ ", " // c\r\n\t", "/**/")


@st.composite
def json_documents(draw: st.DrawFn, *, comments: bool = True) -> tuple[dict[str, Any], str]:
    """Return an object, which may have servers, and a text that says the same."""
    data: dict[str, Any] = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    data.pop("mcpServers", None)

    if draw(st.booleans()):
        data["mcpServers"] = draw(SERVERS)

    writer = random.Random(draw(st.integers(0, 2**32)))
    style = draw(st.sampled_from(["pretty", "tabs", "compact", "wild"]))

    if style == "wild":
        space = (*PLAIN_SPACE, *COMMENTS) if comments else PLAIN_SPACE
        text = write_json(data, writer, space, trailing=comments)
        return data, writer.choice(space) + text + writer.choice(space)

    indents: dict[str, int | str | None] = {"pretty": 2, "tabs": "\t", "compact": None}
    text = json.dumps(data, indent=indents[style], ensure_ascii=writer.random() < 0.5)
    return data, text + writer.choice(["", "\n"])


def write_json(
    value: object, writer: random.Random, space: tuple[str, ...], *, trailing: bool
) -> str:
    def gap() -> str:
        return writer.choice(space)

    def write(inner: object) -> str:
        return write_json(inner, writer, space, trailing=trailing)

    if isinstance(value, dict):
        items = [f"{json.dumps(key)}{gap()}:{gap()}{write(value[key])}" for key in value]
        brackets = "{}"
    elif isinstance(value, list):
        items = [write(element) for element in value]
        brackets = "[]"
    else:
        return json.dumps(value, ensure_ascii=writer.random() < 0.5)

    inside = gap() + (gap() + "," + gap()).join(items) + gap()
    if items and trailing and writer.random() < 0.3:
        inside += "," + gap()

    return brackets[0] + inside + brackets[1]


WITH_COMMENTS = """\
{
    // where servers are
    "mcpServers": {
        "one": {"command": "x"}, // the first
        /* off:
        "two": {}, */
    },
    "theme": "dark"
}
"""


def add(data: dict[str, Any], value: object) -> dict[str, Any]:
    data = deepcopy(data)
    data.setdefault("mcpServers", {})["abilities"] = value
    return data


@tried
@given(json_documents())
def test_a_member_put_in_is_there_with_all_else_and_goes_without_a_trace(
    document: tuple[dict[str, Any], str],
) -> None:
    data, text = document
    assert parse(text).data == data

    first = jsonc.put(text, PATH, OTHER)
    changed = jsonc.put(first, PATH, VALUE)

    assert parse(changed).data == add(data, VALUE)
    assert jsonc.get(changed, PATH) == VALUE
    assert jsonc.put(changed, PATH, VALUE) == changed
    assert jsonc.remove(changed, PATH) == jsonc.remove(first, PATH)
    if data.get("mcpServers", data):  # an empty object does not tell how much space it had
        assert jsonc.remove(changed, PATH, prune="mcpServers" not in data) == text


@tried
@given(json_documents(comments=False))
def test_plain_json_stays_plain_json(document: tuple[dict[str, Any], str]) -> None:
    data, text = document

    assert json.loads(jsonc.put(text, PATH, VALUE)) == add(data, VALUE)


@tried
@given(json_documents(), st.data())
def test_any_member_can_be_taken_out(
    document: tuple[dict[str, Any], str], chosen: st.DataObject
) -> None:
    data, text = document
    assume(data)
    key = chosen.draw(st.sampled_from(sorted(data)))

    left = {name: value for name, value in data.items() if name != key}

    assert parse(jsonc.remove(text, (key,))).data == left


@tried
@given(json_documents())
def test_an_element_put_at_the_end_of_an_array_comes_out_again(
    document: tuple[dict[str, Any], str],
) -> None:
    data, text = document
    assume(data)
    path = ("hooks", "SessionStart")
    once = jsonc.append(text, path, VALUE)

    twice = jsonc.append(once, path, OTHER)

    assert parse(twice).data == data | {"hooks": {"SessionStart": [VALUE, OTHER]}}
    assert jsonc.remove(twice, path, index=1) == once
    assert jsonc.remove(once, path, prune=2, index=0) == text


@tried
@given(st.text('{}[]",:/*\\ \n\ra1-.eEtrufalsn\x00\ufeff', max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    assume(text.strip("\ufeff \n\r"))
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None

    try:
        data = parse(text).data
    except Unparsable as error:
        assert expected is None
        assert 1 <= error.line <= text.count("\n") + 1
    else:
        assert expected is None or data == expected


def test_comments_trailing_commas_and_indentation_stay() -> None:
    changed = jsonc.put(WITH_COMMENTS, PATH, OTHER)

    assert changed == WITH_COMMENTS.replace(
        "// the first\n",
        '// the first\n        "abilities": {\n            "command": "other"\n        },\n',
    )


def test_no_comment_swallows_what_follows_a_removed_member() -> None:
    left = jsonc.remove('{"a": 1, // why\n"b": 2}', ("b",))

    assert "// why" in left and parse(left).data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x":{}}', '{"x":{}, "a": {"b": 1}}'),
        ('{\n\t"x": 1\n}\n', '{\n\t"x": 1,\n\t"a": {\n\t\t"b": 1\n\t}\n}\n'),
        ('{\r\n "a": {}\r\n}', '{\r\n "a": {\r\n  "b": 1\r\n }\r\n}'),
        ('\ufeff{"a": {"x": 1}}', '\ufeff{"a": {"x": 1, "b": 1}}'),
        ('{\n  "a": {\n    // none yet\n  }\n}', None),
    ],
)
def test_a_member_looks_like_its_neighbors(text: str, changed: str | None) -> None:
    if changed is None:
        changed = text.replace("yet\n", 'yet\n    "b": 1\n')

    assert jsonc.put(text, ("a", "b"), 1) == changed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n"a": 1\n"b": 2}', "line 3: Expecting ',' delimiter"),
        ("{\n\n'a': 1}", "line 3: Expecting property name enclosed in double quotes"),
        ('{"a": }', "line 1: Expecting value"),
        ("{,}", "line 1: Expecting property name"),
        ('{"a": [1,,]}', "line 1: Expecting value"),
        ('{"a": NaN}', "line 1: it cannot be read: NaN is no JSON"),
        ('{"a": 1}\n}', "line 2: Extra data"),
        ('{"a": {', "line 1: Expecting property name"),
        ("// only this", "line 1: Expecting value"),
        ("[1]", "line 1: the file must be an object"),
        ('{\n"mcpServers": []}', 'line 2: "mcpServers" must be an object'),
        ('{"mcpServers": {},\n"mcpServers": {}}', 'line 2: "mcpServers" appears here a second'),
        ("[" * 100_000, "line 1: it cannot be read: "),
        ('{"a": "\n"}', "line 1: Invalid control character"),
    ],
)
def test_what_cannot_be_edited_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(Unparsable) as refused:
        jsonc.put(text, PATH, VALUE)

    assert str(refused.value).startswith(words)
