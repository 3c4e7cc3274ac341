"""Editing files of others: one member or table goes in or out, nothing else moves or is lost."""

import json
import os
import random
import stat
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from abilities.clients import edits, jsonc, toml_edit
from abilities.clients.edits import Changed, list_backups, read_file, replace_file
from abilities.clients.entry import Unparsable, Unusable
from abilities.clients.jsonc import parse
from tests.support.tier import size

PATH = ("mcpServers", "abilities")
VALUE = {"command": "/bin/abilities", "args": ["mcp"], "env": {"A": 'é " \\ // \x7f'}}
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


TABLE = ("mcp_servers", "abilities")

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


def add_table(text: str, value: object) -> dict[str, Any]:
    data = load(text)
    data.setdefault("mcp_servers", {})["abilities"] = value
    return data


@tried
@given(toml_documents())
def test_a_table_put_in_stands_after_what_was_there_and_goes_without_a_trace(text: str) -> None:
    is_new = "mcp_servers" not in load(text)
    expected = add_table(text, VALUE)

    changed = toml_edit.put(text, TABLE, VALUE)

    assert load(changed) == expected
    assert changed.startswith(text)
    assert toml_edit.put(changed, TABLE, VALUE) == changed
    assert toml_edit.put(toml_edit.put(text, TABLE, OTHER), TABLE, VALUE) == changed
    assert toml_edit.remove(changed, TABLE, prune=is_new) == text


@tried
@given(toml_documents(), toml_documents(lines=0))
def test_what_others_append_later_stays(text: str, more: str) -> None:
    load(text + "\n" + more)
    assume("mcp_servers]" not in more)
    changed = toml_edit.put(text + "\n", TABLE, VALUE) + "\n" + more
    expected = load(changed)
    del expected["mcp_servers"]["abilities"]

    left = toml_edit.remove(changed, TABLE)

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

    changed = toml_edit.put(text, TABLE, VALUE)
    left = toml_edit.remove(changed, TABLE)

    assert load(changed) == add_table(text, VALUE)
    assert load(left).get("mcp_servers", {}) == expected.pop("mcp_servers")
    assert "# mine" in changed and "# mine" in left


def test_comments_before_the_next_table_belong_to_that() -> None:
    text = toml_edit.put("a = 1\n", TABLE, OTHER) + "\n# about b\n[b]\n"

    assert toml_edit.remove(text, TABLE, prune=1) == "a = 1\n\n# about b\n[b]\n"


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
        toml_edit.put(text, TABLE, VALUE)

    assert str(refused.value).startswith(words)

    with pytest.raises(Unusable, match="mcp_servers must be a table"):
        toml_edit.put("mcp_servers = 3\n", TABLE, VALUE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    path.write_bytes(b"old")
    return path


def list_names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_new_file_is_private_and_has_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "mcp.json"

    assert replace_file(read_file(path), b"new") is None
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_of_one_name_have_backups_of_their_own_and_the_newest_comes_first(
    file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "[o]ther" / "mcp.json"
    other.parent.mkdir()
    other.write_bytes(b"other")

    for path, content in ((file, b"two"), (other, b"new"), (file, b"three")):
        replace_file(read_file(path), content)

    assert [backup.content for backup in list_backups(read_file(file))] == [b"two", b"old"]
    assert [backup.content for backup in list_backups(read_file(other))] == [b"other"]
    backups = Path.home() / ".abilities" / "backups"
    assert stat.S_IMODE(backups.stat().st_mode) == 0o700
    assert (len(list_names(backups)), list_names(file.parent)) == (3, ["[o]ther", "mcp.json"])


def test_with_a_removed_file_go_its_empty_folders_in_the_home_or_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    alone, beside = project / "a" / "b" / "mcp.json", project / "c" / "d" / "mcp.json"
    paths = (alone, beside, project / "mcp.json", tmp_path / "elsewhere" / "mcp.json")
    for path in paths:
        replace_file(read_file(path), b"new")
    (project / "c" / "mine.txt").touch()

    for path in paths:
        replace_file(read_file(path), None)

    assert list_names(project) == ["c"] and list_names(project / "c") == ["mine.txt"]
    assert list_names(tmp_path) == ["elsewhere", "project"]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o640])
def test_mode_and_owner_stay(file: Path, mode: int) -> None:
    if os.geteuid() == 0:
        os.chown(file, 65534, 65533)
    file.chmod(mode)
    before = file.stat()

    backup = replace_file(read_file(file), b"new")

    assert backup is not None
    for path in (file, backup):
        status = path.stat()
        assert status.st_mode == before.st_mode
        assert (status.st_uid, status.st_gid) == (before.st_uid, before.st_gid)


def test_a_link_stays_and_the_file_behind_it_changes_or_is_made(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "a.json").symlink_to("b.json")
    (folder / "b.json").symlink_to(file)
    (folder / "c.json").symlink_to("dotfiles/mcp.json")

    backup = replace_file(read_file(folder / "a.json"), b"new")
    assert backup is not None and replace_file(read_file(folder / "c.json"), b"made") is None

    assert (file.read_bytes(), list_names(tmp_path)) == (b"new", ["home", "mcp.json"])
    assert (folder / "dotfiles" / "mcp.json").read_bytes() == b"made"
    links = [name for name in list_names(folder) if (folder / name).is_symlink()]
    assert links == ["a.json", "b.json", "c.json"]


@pytest.mark.parametrize("content", [b"new", None])
@pytest.mark.parametrize("meanwhile", [b"other", None])
def test_a_file_that_changed_meanwhile_stays(
    file: Path, content: bytes | None, meanwhile: bytes | None
) -> None:
    snapshot = read_file(file)
    if meanwhile is None:
        file.unlink()
    else:
        file.write_bytes(meanwhile)

    with pytest.raises(Changed):
        replace_file(snapshot, content)

    assert read_file(file).content == meanwhile
    assert list_names(file.parent) == ([] if meanwhile is None else ["mcp.json"])


def test_the_last_look_is_just_before_the_replacement(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = edits._write_new

    def write_and_disturb(*arguments: object) -> None:
        write(*arguments)  # type: ignore[arg-type]
        file.write_bytes(b"other")

    monkeypatch.setattr(edits, "_write_new", write_and_disturb)

    with pytest.raises(Changed):
        replace_file(read_file(file), b"new")

    assert (file.read_bytes(), list_names(file.parent)) == (b"other", ["mcp.json"])


def test_a_full_disk_leaves_everything_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)

    with pytest.raises(OSError, match="No space left"):
        replace_file(read_file(file), b"new")

    assert (file.read_bytes(), list_names(file.parent)) == (b"old", ["mcp.json"])
