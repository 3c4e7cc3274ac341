"""Memories about files: what reading a file brings, to whom, and within which bounds."""

import asyncio
from typing import Any

import orjson
import pytest

from abilities import Abilities, Settings
from abilities.helpers.store.about import find_named_files
from tests.memories.calls import find_fault, find_reason, get, open_calls, store
from tests.support.places import FilePlace
from tests.support.stores import store_file, tamper
from tests.support.surfaces import Call, Through

Payload = dict[str, Any]


@pytest.fixture
def files(roots: Settings) -> Settings:
    """Settings of a workspace with some files."""
    for name, content in {"src/app.py": "one\ntwo\n", "src/b.py": "b\n", "notes.md": "n\n"}.items():
        path = roots.workspace_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)

    return roots


async def remember_some(settings: Settings) -> None:
    async with open_calls(settings) as call:
        await store(call, "app", "Port 8080. And more.", about=["./src//app.py"])
        await store(call, "all", "Tabs everywhere.", about=["src/**/*.py"])


def drop_dates(records: Any) -> list[list[Payload]]:
    shown: list[list[Payload]] = []
    for record in records:
        memories = record.get("data", record).get("remembered", [])
        shown.append([{k: v for k, v in one.items() if k != "date"} for one in memories])

    return shown


MANY = [f"f{number}.py" for number in range(20)]
APP = {"key": "app", "text": "Port 8080."}
ALL = {"key": "all", "text": "Tabs everywhere."}


async def test_a_file_comes_with_what_is_remembered_about_it(
    files: Settings, through: Through
) -> None:
    await remember_some(files)
    call = through(files)
    paths = ["src/app.py", "src/b.py", "notes.md", "src/app.py#L2-", "none.py"]
    items = ["src/app.py", {"glob": "src/b*"}, {"search": "one"}]

    bulk = await call("file_read_bulk", paths=paths, detail="full")
    mixed = await call("read", items=items, detail="full")
    without = await call("file_read_bulk", paths=paths[:1], memories=False)

    assert drop_dates(bulk["results"]) == [[APP, ALL], [{"key": "all"}], [], [], []]
    assert drop_dates(mixed["results"]) == [[APP, ALL], [], []]
    assert drop_dates(mixed["results"][1]["data"]["items"]) == [[{"key": "all"}]]
    assert drop_dates(mixed["results"][2]["data"]["items"]) == [[]]
    assert drop_dates(without["results"]) == [[]]


async def test_nothing_is_added_where_nothing_is_known(files: Settings) -> None:
    request = {"paths": ["src/app.py", "notes.md"]}

    async with Abilities.open(files) as abilities:
        before = (await abilities.reply("file_read_bulk", request)).text
        assert not store_file(files).exists(), "a store is not created for it"
        await abilities.call("store_memory", {"type": "core", "content": "x", "about": ["lib/*"]})
        after = (await abilities.reply("file_read_bulk", request)).text

    assert before == after


async def test_only_who_may_see_memories_sees_them_with_files(files: Settings) -> None:
    await remember_some(files)
    quiet = files.model_copy(update={"remembered": False})
    request = {"paths": ["src/app.py"]}

    async with Abilities.open(files) as abilities, Abilities.open(quiet) as silent:
        for view, expected in (
            (abilities, [[APP, ALL]]),
            (abilities.for_caller("files", tools=["files"]), [[]]),
            (abilities.for_caller("both", tools=["files", "memory_get"]), [[APP, ALL]]),
            (abilities.for_caller("writer", tools=["files", "store_memory"]), [[]]),
            (abilities.for_namespace("other"), [[]]),
            (silent, [[]]),
        ):
            answer = await view.call("file_read_bulk", request)
            assert drop_dates(answer["results"]) == expected

        lean = abilities.for_caller("lean", tools=["lean"])
        answer = await lean.call("read", {"items": ["src/app.py"]})
        assert drop_dates(answer["results"]) == [[APP, ALL]]


async def test_what_is_shown_is_bounded(files: Settings) -> None:
    async with open_calls(files) as call:
        for number in range(5):
            await store(call, f"k{number}", "word " * 500, about=["notes.md"])
        await store(call, "k" * 200, "Short.", about=["src/b.py"])
        await store(call, "\U0001f600" * 200, "Short.", about=["src/app.py"])
        answer = await call("file_read_bulk", paths=["notes.md", "src/b.py", "src/app.py"])

    many, long, longest = (record["data"].get("remembered", []) for record in answer["results"])
    assert 1 <= len(many) <= 3 and len(orjson.dumps(many)) <= 300
    assert all(memory["text"].endswith("word…") for memory in many)
    assert [memory["text"] for memory in long] == ["Short."] and len(orjson.dumps(long)) <= 300
    assert longest == []


@pytest.mark.parametrize("damage", ["content", "index", "page"])
async def test_a_damaged_store_fails_no_file(
    damage: str, files: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    await remember_some(files)
    if damage == "content":
        tamper(files, "UPDATE memories SET content = 'Port 1.' WHERE key = 'app'")
    elif damage == "index":
        tamper(files, "UPDATE about SET entry = 'none' WHERE root = 'src/app.py'")
    else:
        path = store_file(files)
        path.write_bytes(path.read_bytes()[:4_096] + b"x" * 40_000)

    async with open_calls(files) as call:
        answer = await call("file_read_bulk", paths=["src/app.py"])

    expected = [] if damage == "page" else [ALL]
    assert answer["results"][0]["data"]["content"] == "one\ntwo\n"
    assert drop_dates(answer["results"]) == [expected]
    assert ("without their memories" in caplog.text) == (damage == "page")


async def test_a_store_that_hangs_fails_no_file(
    files: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember_some(files)
    monkeypatch.setattr("abilities.helpers.store.store.ABOUT_SECONDS", 0.05)

    async with Abilities.open(files) as abilities:
        engine = abilities._resources.store.engine  # type: ignore[attr-defined]

        async def hang(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(engine, "read", hang)
        answer = await abilities.call("file_read_bulk", {"paths": ["src/app.py"]})

    assert drop_dates(answer["results"]) == [[]]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/src/app.py", "absolute_path"),
        ("../app.py", "parent_traversal"),
        ("src/{../x,y}/../z", "parent_traversal"),
        ("src/{.,a}{.,b}/z", "parent_traversal"),
        ("{a,b}" * 6, "invalid_format"),
        ("a\nb", "control_character"),
        ("a\\b", "backslash"),
        ("C:/app.py", "drive_path"),
        ("./", "empty_path"),
        ("", "too_short"),
        ("x" * 201, "too_long"),
    ],
)
async def test_a_path_that_no_file_has_is_refused(path: str, reason: str, call: Call) -> None:
    fault = await find_fault(call, "store_memory", type="core", content="x", about=["a", path])

    assert (fault.reason, fault.field) == (reason, "about[1]")
    assert await find_reason(call, "query_memories", about=path) == reason
    operation = {"op": "store", "type": "core", "content": "x", "about": [path]}
    (record,) = (await call("remember", operations=[operation]))["results"]
    assert record["reason"] == reason


async def test_paths_are_kept_in_their_shortest_form_and_are_few(call: Call) -> None:
    await store(call, "k", "x", about=["a//b.py", "./a/b.py", "docs/"])
    assert (await get(call, "k"))["about"] == ["a/b.py", "docs"]
    assert await find_reason(call, "update_memory", key="k", about=["x"] * 11) == "too_many"


async def test_what_was_replaced_later_is_about_the_same_file(files: Settings) -> None:
    operation = {"op": "supersede", "key": "old", "new_key": "new", "content": "The port is 81."}
    question: Payload = {"queries": ["port"], "about": "src/app.py", "detail": "full"}

    async with open_calls(files) as call:
        await store(call, "old", "The port is 80.", about=["src/app.py"])
        await call("remember", operations=[operation])
        tamper(files, "UPDATE shelf SET created_at = '2020-01-01T00:00:00.000Z' WHERE key = 'old'")

        for as_of, expected in ((None, "new"), ("2021-01-01", "old")):
            (record,) = (await call("recall", **question, as_of=as_of))["results"]
            assert [memory["key"] for memory in record["data"]["memories"]] == [expected]


async def test_the_command_line_prints_what_is_remembered(files: Settings) -> None:
    await remember_some(files)
    place = FilePlace(store_file(files))

    printed = await asyncio.to_thread(place.run, "about", "src/app.py", "./notes.md")
    refused = await asyncio.to_thread(place.run, "about", "../x")

    records = orjson.loads(printed.stdout)
    assert [record["path"] for record in records] == ["src/app.py", "./notes.md"]
    assert drop_dates(records) == [[APP, ALL], []]
    assert refused.exit_code == 1 and "'..'" in refused.stderr


@pytest.mark.parametrize(
    ("content", "files"),
    [
        ("Fix src/app.py, then (docs/read.md).", ["src/app.py", "docs/read.md"]),
        ("./a/b.rs:12 and `c.go`#L3", ["a/b.rs", "c.go"]),
        ("https://example.com/a/b.py, ../x.py, /etc/y.conf, ~/z.sh", []),
        ("e.g. example.com, 3.14, and/or, v1.2, Node.js", ["Node.js"]),
        (".github/ci.yml", [".github/ci.yml"]),
        (f"{' '.join(MANY)} a/b.py", ["a/b.py", *MANY[:9]]),
        ("a" * 200_000 + "." * 200_000 + "/" * 200_000, []),
    ],
)
def test_files_are_found_in_contents(content: str, files: list[str]) -> None:
    assert find_named_files(content) == files
