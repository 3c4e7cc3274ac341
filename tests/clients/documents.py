"""JSON with comments and TOML, written in all the ways in which people write them."""

import json
import random
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "theme", "x y", "é", 'q"', "mcpServers", "command", "//", ""])
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.sampled_from([0.5, "", "text", "a // b", "/* */", "\\", '"', "}", "\u2028", "\ud800"]),
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SERVERS = st.dictionaries(st.sampled_from(["one", "two", "x y"]), VALUES, max_size=2)

_PLAIN_SPACE = ("", "", "", " ", "\n", "\n  ", "\t", "\r\n    ")
_COMMENTS = ("// c\n", ' // it\'s "x" {  \n', "/* c */", "/* a\n b */ ", " // c\r\n\t", "/**/")


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
        space = (*_PLAIN_SPACE, *_COMMENTS) if comments else _PLAIN_SPACE
        text = _write_json(data, writer, space, trailing=comments)
        return data, writer.choice(space) + text + writer.choice(space)

    indents: dict[str, int | str | None] = {"pretty": 2, "tabs": "\t", "compact": None}
    text = json.dumps(data, indent=indents[style], ensure_ascii=writer.random() < 0.5)
    return data, text + writer.choice(["", "\n"])


def _write_json(
    value: object, writer: random.Random, space: tuple[str, ...], *, trailing: bool
) -> str:
    def gap() -> str:
        return writer.choice(space)

    def write(inner: object) -> str:
        return _write_json(inner, writer, space, trailing=trailing)

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


_TOML_TOP = [
    'model = "o3"',
    "# a comment\n",
    "n = 1 # why",
    'text = """\n[mcp_servers.abilities]\ncommand = "no"\n"""',
    "list = [\n  [1],\n  [\n2],\n]",
    "",
    "nan = nan",
]
_TOML_TABLES = [
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
    top = draw(st.lists(st.sampled_from(_TOML_TOP), unique=True, max_size=lines))
    tables = draw(st.lists(st.sampled_from(_TOML_TABLES), unique=True, max_size=4))
    text = "\n".join([*top, *tables]) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))

    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")

    return text
