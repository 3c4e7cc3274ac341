"""Editing TOML: one table goes in or out, and nothing else moves."""

import tomllib
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from abilities.clients import toml_edit
from abilities.clients.entry import Unparsable, Unusable
from tests.support.tier import size

PATH = ("mcp_servers", "abilities")
VALUE = {"command": "/bin/abilities", "args": ["mcp"], "env": {"A": 'é " \\ \x7f'}}
OTHER = {"command": "other"}
EXAMPLES = size("ABILITIES_TEST_EXAMPLES", quick=15, full=150)

tried = settings(max_examples=EXAMPLES, deadline=None)


TOP = [
    'model = "o3"',
    "# a comment\n",
    "n = 1 # why",
    'text = """\n[mcp_servers.abilities]\ncommand = "no"\n"""',
    "list = [\n  [1],\n  [\n2],\n]",
    "",
    "nan = nan",
]
TABLES = [
    '[mcp_servers.one]\ncommand = "a"\n',
    "[mcp_servers.one.env]\nA = 'b' # c",
    "[mcp_servers]\n",
    '[projects."/x y"]\ntrust_level = "trusted"\n',
    "# about what follows\n[profiles.a]\n",
    "[[tools]]\nname = '''\n[x]\n'''\n",
    "[[tools]]\n\n\n",
    "  [ ui . colors ]\nred=1",
]


@st.composite
def toml_documents(draw: st.DrawFn, *, lines: int = 3) -> str:
    """Return lines and tables in any order; not each result is valid."""
    top = draw(st.lists(st.sampled_from(TOP), unique=True, max_size=lines))
    tables = draw(st.lists(st.sampled_from(TABLES), unique=True, max_size=4))
    text = "\n".join([*top, *tables]) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))

    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")

    return text


def load(text: str) -> dict[str, Any]:
    """Return what a valid text says, so that it can be compared."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)

    data.pop("nan", None)
    return data


def add(text: str, value: object) -> dict[str, Any]:
    data = load(text)
    data.setdefault("mcp_servers", {})["abilities"] = value
    return data


@tried
@given(toml_documents())
def test_a_table_put_in_stands_after_what_was_there_and_goes_without_a_trace(text: str) -> None:
    is_new = "mcp_servers" not in load(text)
    expected = add(text, VALUE)

    changed = toml_edit.put(text, PATH, VALUE)

    assert load(changed) == expected
    assert changed.startswith(text)
    assert toml_edit.put(changed, PATH, VALUE) == changed
    assert toml_edit.put(toml_edit.put(text, PATH, OTHER), PATH, VALUE) == changed
    assert toml_edit.remove(changed, PATH, prune=is_new) == text


@tried
@given(toml_documents(), toml_documents(lines=0))
def test_what_others_append_later_stays(text: str, more: str) -> None:
    load(text + "\n" + more)
    assume("mcp_servers]" not in more)
    changed = toml_edit.put(text + "\n", PATH, VALUE) + "\n" + more
    expected = load(changed)
    del expected["mcp_servers"]["abilities"]

    left = toml_edit.remove(changed, PATH)

    assert load(left).get("mcp_servers", {}) == expected.pop("mcp_servers")
    assert left.startswith(text)
    assert left.endswith(more)


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = {one = {command = "a"}}\nx = 1 # mine\n[q]\n',
        'mcp_servers.one.command = "a" # mine\n[q]\n',
        '[mcp_servers]\none = {command = "a"}\n\n[q] # mine\n',
        '[mcp_servers]\none.command = "a"\n[q] # mine\n',
        'mcp_servers.abilities = {command = "a"}\nx = 1 # mine\n',
        '[mcp_servers]\nabilities = {command = "a"}\nx = 1 # mine\n',
        '[mcp_servers.abilities]\nargs = []\n[x] # mine\n[mcp_servers.abilities.env]\nA = "b"\n',
    ],
)
def test_servers_and_an_entry_in_another_form_are_edited_too(text: str) -> None:
    expected = load(text)
    expected["mcp_servers"].pop("abilities", None)

    changed = toml_edit.put(text, PATH, VALUE)
    left = toml_edit.remove(changed, PATH)

    assert load(changed) == add(text, VALUE)
    assert load(left).get("mcp_servers", {}) == expected.pop("mcp_servers")
    assert "# mine" in changed and "# mine" in left


def test_comments_before_the_next_table_belong_to_that() -> None:
    text = toml_edit.put("a = 1\n", PATH, OTHER) + "\n# about b\n[b]\n"

    assert toml_edit.remove(text, PATH, prune=1) == "a = 1\n\n# about b\n[b]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\nb = \n", "line 2: Invalid value"),
        ("[a]\nx = 1\n[a]\n", "line 3: Cannot declare ('a',) twice"),
        ('a = "', "line 1: Unterminated string"),
    ],
)
def test_what_is_not_toml_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(Unparsable, match=r"^line ") as refused:
        toml_edit.put(text, PATH, VALUE)

    assert str(refused.value).startswith(words)

    with pytest.raises(Unusable, match="mcp_servers must be a table"):
        toml_edit.put("mcp_servers = 3\n", PATH, VALUE)
