"""Imports of sessions: which turns are in the store, what a second import reads, hostile files."""

import asyncio
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from abilities.helpers.files.redaction import find_secrets
from abilities.helpers.transfer import importing, sessions, sources
from tests.support.dialogs import (
    ANSWERED,
    ANSWERED_AT,
    ASKED,
    ASKED_AT,
    CHATGPT,
    CLAUDE,
    CLAUDE_CODE,
    CODEX,
    DONE,
    DONE_AT,
    OLD_CODEX,
    ORDERED,
    ORDERED_AT,
    SESSION,
    UUID,
    claude_code,
    codex,
    text,
    write_lines,
)
from tests.support.importing import import_file
from tests.support.places import FilePlace, StorePlace
from tests.support.secret_samples import list_samples
from tests.support.tier import size

NAMESPACE = "default.sessions"

some = settings(max_examples=size("ABILITIES_EXAMPLES", quick=20, full=200))


def name_session(folder: Path, number: int = 0) -> Path:
    """Return the file of a session of Claude Code, whose UUID ends in a number."""
    return folder / "-home-ada-tea-shop" / f"{UUID[:-4]}{number:04}.jsonl"


def ask(number: int, answer: str = "") -> list[dict[str, Any]]:
    """Return the lines of a turn of Claude Code."""
    lines = [claude_code("user", f"Question {number}?", f"2026-02-01T00:{number:02}:00.000Z")]
    if answer:
        time = f"2026-02-01T00:{number:02}:30.000Z"
        lines.append(claude_code("assistant", [text(answer)], time))
    return lines


def import_all(place: StorePlace, source: Path, *options: str) -> str:
    """Import a source, and return the counts of the outcomes."""
    done = place.run("import", source, *options)
    assert done.exit_code == 0, done.output
    return count(done)


def count(done: Result) -> str:
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(("Imp", "Would"))]
    counts, _, rest = line.partition(": ")[2].partition(".")
    assert rest.startswith(" Sessions are in the namespace "), line
    return counts


def read_contents(place: StorePlace) -> dict[str, str]:
    return {key: memory["content"] for key, memory in place.read_memories().items()}


def write_array(folder: Path, conversations: list[Any]) -> Path:
    file = folder / "conversations.json"
    file.write_text(json.dumps(conversations, indent=1))
    return file


SAMPLES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "claude-code": (
        f"tea-shop/{SESSION}",
        lambda folder: write_lines(folder / "-home-ada-tea-shop" / f"{UUID}.jsonl", *CLAUDE_CODE),
    ),
    "codex": (
        f"tea-shop/{SESSION}",
        lambda folder: write_lines(
            folder / "2026" / "01" / "18" / f"rollout-2026-01-18T02-01-28-{UUID}.jsonl", *CODEX
        ),
    ),
    "old codex": (
        f"tea-shop/{SESSION}",
        lambda folder: write_lines(folder / f"rollout-2025-06-01-{UUID}.jsonl", *OLD_CODEX),
    ),
    "chatgpt": (f"chatgpt/{SESSION}", lambda folder: write_array(folder, CHATGPT)),
    "claude": (f"claude/{SESSION}", lambda folder: write_array(folder, CLAUDE)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_each_turn_becomes_a_memory_that_follows_the_one_before(
    name: str, folder: Path, place: StorePlace, tmp_path: Path
) -> None:
    prefix, write = SAMPLES[name]
    write(folder)

    tried = import_all(place, folder, "--dry-run")
    done = import_all(place, folder)
    memories = place.read_memories()
    again = import_all(place, folder)

    assert tried == done == "2 added"
    assert "unchanged" in again and "added" not in again
    assert place.read_memories() == memories
    first, second = f"{prefix}/0001", f"{prefix}/0002"
    assert list(memories) == [first, second]
    assert memories[first]["content"] == f"{ASKED}\n\nAssistant: {ANSWERED}"
    assert memories[second]["content"] == f"{ORDERED}\n\nAssistant: {DONE}"
    assert "links" not in memories[first]
    assert memories[second]["links"] == [{"key": first, "link_weight": 0.5, "type": "follows"}]
    for memory, begun, ended in (
        (memories[first], ASKED_AT, ANSWERED_AT),
        (memories[second], ORDERED_AT, DONE_AT),
    ):
        assert (memory["created_at"], memory["updated_at"]) == (begun, ended)
        assert memory["namespace"] == NAMESPACE
        assert memory["category"] == name.removeprefix("old ")
        assert memory["importance"] == "low"
        assert memory["metadata"]["session"] == UUID
    assert place.run("check").exit_code == 0

    (file,) = [path for path in folder.rglob("*.json*") if path.is_file()]
    for source, stdin in ((file, None), ("-", file.read_bytes())):
        other = FilePlace(tmp_path / f"{stdin is None}.db")
        assert count(other.run("import", source, stdin=stdin)) == "2 added"
        assert read_contents(other) == read_contents(place)


def test_sessions_have_a_namespace_beside_that_of_memories(
    folder: Path, file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(name_session(folder), *ask(1))
    file_place.run("call", "store_memory", '{"type": "core", "key": "mine", "content": "tea"}')

    import_all(file_place, folder)
    import_all(file_place, folder, "--namespace", "team")
    recalled = [
        file_place.run("call", "recall", '{"queries": ["question"]}', *options).stdout
        for options in ((), ("--namespace", NAMESPACE))
    ]
    monkeypatch.setenv("ABILITIES_NAMESPACE", "n" * 128)
    too_long = file_place.run("import", folder)

    lines = map(json.loads, file_place.export().splitlines()[1:])
    assert {line["namespace"] for line in lines} == {"default", NAMESPACE, "team"}
    assert ["Question 1?" in answer for answer in recalled] == [False, True]
    assert too_long.exit_code == 1 and "choose one: --namespace NAME" in too_long.stderr


def test_a_session_that_grew_is_continued_and_nothing_before_is_read_again(
    folder: Path, place: StorePlace
) -> None:
    file = write_lines(name_session(folder), *ask(1, "One."), *ask(2, "Begun."))
    other = write_lines(name_session(folder, 1), *ask(9))
    import_all(place, folder)
    content = file.read_bytes()
    file.write_bytes(b"x" * content.index(b"\n") + content[content.index(b"\n") :])
    write_lines(file, claude_code("assistant", [text("Two.")], "2026-02-01T00:02:50.000Z"))
    write_lines(file, *ask(3, "Three."))

    done = import_all(place, folder)

    assert done == "1 added, 1 replaced, 1 unchanged"
    memories = place.read_memories()
    keys = [f"tea-shop/{file.stem[-12:]}/{turn:04}" for turn in (1, 2, 3)]
    assert list(memories) == [*keys, f"tea-shop/{other.stem[-12:]}/0001"]
    assert memories[keys[1]]["content"] == "Question 2?\n\nAssistant: Two."
    assert memories[keys[2]]["links"] == [{"key": keys[1], "link_weight": 0.5, "type": "follows"}]


def test_a_turn_that_was_changed_here_since_is_kept(folder: Path, file_place: FilePlace) -> None:
    file = write_lines(name_session(folder), *ask(1, "One."))
    import_all(file_place, folder)
    (key,) = read_contents(file_place)
    change = json.dumps({"key": key, "content": "Mine."})
    assert file_place.run("call", "update_memory", change, "--namespace", NAMESPACE).exit_code == 0
    write_lines(file, claude_code("assistant", [text("Uno.")], "2026-02-01T00:01:50.000Z"))

    assert import_all(file_place, folder) == "1 kept"
    assert read_contents(file_place) == {key: "Mine."}
    assert import_all(file_place, folder, "--replace") == "1 replaced"
    assert read_contents(file_place) == {key: "Question 1?\n\nAssistant: Uno."}


@pytest.mark.parametrize("shrunk", [True, False])
def test_a_file_that_was_rewritten_is_read_from_its_start(
    shrunk: bool, folder: Path, file_place: FilePlace
) -> None:
    file = write_lines(name_session(folder), *ask(1, "One."), *ask(2, "Two."))
    import_all(file_place, folder)
    file.unlink()
    write_lines(file, *ask(5, "Five."), *([] if shrunk else [*ask(6, "Six " * 90), *ask(7)]))

    done = import_all(file_place, folder)

    assert done == ("1 replaced" if shrunk else "1 added, 2 replaced")
    contents = list(read_contents(file_place).values())
    assert contents[0] == "Question 5?\n\nAssistant: Five."


@pytest.mark.parametrize("stop", [1, 2, 5])
async def test_an_import_that_was_stopped_goes_on(
    stop: int, folder: Path, place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (0, 1):
        turns = [line for turn in range(1, 9) for line in ask(turn, f"Answer {number}.")]
        write_lines(name_session(folder, number), *turns)
    monkeypatch.setattr(importing, "BATCH", 3)
    positions: list[int] = []

    def progress(position: int) -> None:
        positions.append(position)
        if len(positions) == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        async with place.open() as store:
            await import_file(store, folder, progress=progress)
    positions.clear()
    async with place.open() as store:
        counts = await import_file(store, folder, progress=positions.append)

    assert 0 < counts["added"] < 16 and counts.keys() <= {"added", "unchanged"}
    assert positions == sorted(positions)
    assert positions[-1] == sum(file.stat().st_size for file in folder.rglob("*.jsonl"))
    memories = await asyncio.to_thread(place.read_memories)
    assert len(memories) == 16
    assert sum("links" in memory for memory in memories.values()) == 14


def test_a_fork_has_only_its_own_turns(folder: Path, file_place: FilePlace) -> None:
    original = write_lines(name_session(folder), *ask(1, "One."))
    copied = {"forkedFrom": {"sessionId": original.stem, "messageUuid": "x"}}
    fork = write_lines(
        name_session(folder, 1), *[{**line, **copied} for line in ask(1, "One.")], *ask(2)
    )

    assert import_all(file_place, folder) == "2 added"
    assert import_all(file_place, folder) == "2 unchanged"

    original.unlink()
    assert import_all(file_place.beside("alone.db"), folder) == "2 added"
    assert fork.exists()


def test_sessions_of_subagents_are_counted(folder: Path, file_place: FilePlace) -> None:
    write_lines(name_session(folder), *ask(1))
    write_lines(name_session(folder).with_name("agent-1234.jsonl"), *ask(2))
    meta = {"id": UUID, "cwd": "/x", "source": {"subagent": {"thread_spawn": {}}}}
    turn = codex("event_msg", {"type": "user_message", "message": "Search."})
    write_lines(folder / "rollout-x.jsonl", codex("session_meta", meta), turn)
    write_lines(folder / "history.jsonl", {"display": "Question", "project": "/x"})

    done = file_place.run("import", folder)

    assert done.stderr.splitlines()[:-1] == [
        "1 file: Nothing in them is a session.",
        "1 session: Sessions of subagents are not imported.",
    ]
    assert count(done) == "1 added"


BROKEN: dict[str, tuple[bytes, str]] = {
    "half a line": (b'{"type": "user", "mess', "is not valid JSON"),
    "not UTF-8": (b'{"type": "user", "message": "\xff"}', "is not valid JSON"),
    "a list": (b"[1, 2]", "is not a JSON object"),
    "a number": (b"17", "is not a JSON object"),
    "no message": (b'{"type": "user", "message": 5}', "The field message is not a JSON object"),
    "an odd content": (b'{"type": "user", "message": {"content": 5}}', "should be a list"),
    "deep": (b'{"type": ' + b"[" * 100_000, "is not valid JSON"),
    "huge": (b'{"x": "' + b"x" * (8 << 20) + b'"}', "The line is too long; the limit is 8 MiB"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_is_named_and_the_others_are_imported(
    name: str, folder: Path, file_place: FilePlace
) -> None:
    line, words = BROKEN[name]
    file = write_lines(name_session(folder), *ask(1))
    file.write_bytes(file.read_bytes() + line + b"\n")
    write_lines(file, *ask(2))

    done = file_place.run("import", folder)

    assert done.exit_code == 1
    assert count(done) == "2 added, 1 refused"
    (remark,) = done.stderr.splitlines()[:-1]
    assert remark.startswith(f"-home-ada-tea-shop/{file.name}, line 2: ") and words in remark


FIELDS = [
    *("type", "message", "content", "payload", "text", "parts", "author", "role", "uuid"),
    *("mapping", "current_node", "parent", "chat_messages", "sender", "timestamp", "cwd"),
    *("create_time", "sessionId", "forkedFrom", "source", "id", "created_at", "metadata"),
]


ODD_RECORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=15,
)


@some
@given(st.lists(ODD_RECORDS, max_size=4), st.sampled_from([CLAUDE_CODE, CODEX, OLD_CODEX]))
def test_no_value_of_a_wrong_type_stops_an_import(
    tmp_path_factory: pytest.TempPathFactory, odd: list[Any], sample: list[Any]
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    place = FilePlace(folder / "m.db")
    changes = [record for record in odd if isinstance(record, dict)]
    mixed = [{**record, **change} for change in changes for record in sample]
    write_lines(folder / f"{UUID}.jsonl", *odd, *mixed, *ask(1))
    (folder / "export").mkdir()
    write_array(
        folder / "export", [*odd, *({**CHATGPT[0], **change} for change in changes), *CLAUDE]
    )

    async def read() -> None:
        async with place.open() as store:
            counts = await import_file(store, folder / "export", dry_run=True)
            assert counts["added"] >= 2
            await import_file(store, folder, dry_run=True)

    asyncio.run(read())


def test_links_and_other_kinds_of_files_are_named_and_not_followed(
    folder: Path, tmp_path: Path, file_place: FilePlace
) -> None:
    outside = write_lines(tmp_path / "outside" / f"{UUID}.jsonl", *ask(1))
    write_lines(name_session(folder), *ask(2))
    (folder / "linked").symlink_to(outside.parent)
    (folder / "linked.jsonl").symlink_to(outside)
    (folder / "dangling.jsonl").symlink_to(outside.with_name("nothing"))
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "pipe.jsonl")
    (folder / os.fsdecode(b"\xff\n.jsonl")).symlink_to(outside)
    report = tmp_path / "report.jsonl"

    done = file_place.run("import", folder, "--report", report)

    assert done.exit_code == 1
    assert count(done) == "1 added, 5 refused"
    named = {json.loads(line)["place"] for line in report.read_text().splitlines()}
    assert named == {*("dangling.jsonl", "linked", "linked.jsonl", "pipe.jsonl", "\ufffd\n.jsonl")}
    assert list(read_contents(file_place).values()) == ["Question 2?"]


def test_what_cannot_be_read_is_named(
    folder: Path, file_place: FilePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(name_session(folder), *ask(1))
    refused = write_lines(name_session(folder, 1), *ask(2))
    closed = write_lines(folder / "closed" / f"{UUID}.jsonl", *ask(3)).parent
    really_open = os.open

    def open_as_another_user(path: Any, *arguments: Any, **options: Any) -> int:
        if path in (refused.name, closed.name):
            raise PermissionError(13, "Permission denied", path)
        return really_open(path, *arguments, **options)

    monkeypatch.setattr(os, "open", open_as_another_user)

    done = file_place.run("import", folder)

    assert done.exit_code == 1
    assert count(done) == "1 added, 2 refused"


def test_nothing_to_import_is_explained(folder: Path, file_place: FilePlace) -> None:
    done = file_place.run("import", folder)

    assert done.exit_code == 1
    assert "~/.claude/projects" in done.stderr
    assert not file_place.path.exists()


def zip_export(file: Path, **members: str) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("chat.html", "<html>")
        for name, content in members.items():
            archive.writestr(name.replace("__", "/") + ".json", content)
    return file


@pytest.mark.parametrize("conversations", [CHATGPT, CLAUDE])
def test_an_archive_is_imported_as_it_was_downloaded(
    conversations: list[Any], tmp_path: Path, file_place: FilePlace
) -> None:
    other = [{**conversations[0], "uuid": UUID[:-1] + "7", "conversation_id": UUID[:-1] + "7"}]
    file = zip_export(
        tmp_path / "export.zip",
        **{
            "conversations-000": json.dumps(conversations),
            "..__conversations-001": json.dumps(other),
        },
        user="{}",
    )

    assert import_all(file_place, file) == "4 added"
    assert import_all(file_place, file) == "4 unchanged"
    assert count(file_place.run("import", "-", stdin=file.read_bytes())) == "4 unchanged"
    assert sorted(os.listdir(tmp_path)) == ["export.zip", "m.db", "m.db-lock"]


def encrypt(file: Path) -> None:
    """Mark the members of an archive as encrypted (APPNOTE.TXT, sections 4.3.12 and 4.4.4)."""
    content = bytearray(file.read_bytes())
    at = content.find(b"PK\x01\x02")
    while at >= 0:
        content[at + 8] |= 1
        at = content.find(b"PK\x01\x02", at + 1)
    file.write_bytes(content)


def test_archives_that_cannot_be_unpacked_are_refused(
    tmp_path: Path, file_place: FilePlace
) -> None:
    bomb = zip_export(tmp_path / "bomb.zip", conversations="[" + " " * 10_000_000 + "]")
    locked = zip_export(tmp_path / "locked.zip", conversations=json.dumps(CLAUDE))
    encrypt(locked)
    torn = zip_export(tmp_path / "torn.zip", conversations=json.dumps(CLAUDE))
    torn.write_bytes(torn.read_bytes()[:-30])
    empty = zip_export(tmp_path / "empty.zip", user="{}")

    for file, words in (
        (bomb, "would unpack to a hundred times its size"),
        (locked, "is damaged, or has a password"),
        (torn, "is damaged, or has a password"),
        (empty, "no conversations.json"),
    ):
        done = file_place.run("import", file)
        assert done.exit_code == 1 and words in done.stderr, file
    assert not file_place.path.exists()


def test_a_broken_conversation_is_named_and_the_others_are_imported(
    folder: Path, file_place: FilePlace
) -> None:
    torn = '{"uuid": "x", "chat_messages": [{"sender": hm}]}'
    odd = '{"uuid": "x", "chat_messages": 5}'
    end = '{"uuid": "x", "chat_messages": ['
    (folder / "conversations.json").write_text(f"[{json.dumps(CLAUDE[0])},{torn},{odd},[],{end}")

    done = file_place.run("import", folder)

    assert done.exit_code == 1
    assert count(done) == "2 added, 4 refused"
    numbers = [line.partition(":")[0] for line in done.stderr.splitlines()[:-1]]
    assert numbers == [f"conversations.json, conversation {n}" for n in (2, 3, 4, 5)]


def read_elements(file: Path) -> list[sources.Line]:
    async def read() -> list[sources.Line]:
        return [line async for line in sources.read_elements(os.open(file, os.O_RDONLY))]

    return asyncio.run(read())


JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\{}[],: é', max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=9,
)


@some
@given(st.lists(st.lists(JSON, max_size=3)), st.integers(1, 9), st.booleans())
def test_the_elements_of_an_array_are_those_of_json_in_chunks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], chunk: int, spaced: bool
) -> None:
    file = tmp_path_factory.getbasetemp() / "elements.json"
    file.write_text(json.dumps(values, indent=2 if spaced else None, ensure_ascii=False))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "CHUNK", chunk)
        elements = read_elements(file)

    assert [json.loads(element.text or b"") for element in elements] == values
    assert [element.number for element in elements] == list(range(1, len(values) + 1))
    content = file.read_bytes()
    for element in elements:
        assert content[: element.end].endswith(element.text or b"")


@some
@given(st.text(alphabet='a"\\[]{}', min_size=60, max_size=90), st.integers(1, 9))
def test_an_element_that_is_too_long_is_skipped_and_the_next_is_whole(
    tmp_path_factory: pytest.TempPathFactory, long: str, chunk: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "long.json"
    file.write_text(json.dumps([[1], {"a": long, "b": [long]}, ["end"]]))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sources, "CHUNK", chunk)
        patched.setattr(sources, "MAX_LINE", 40)
        elements = read_elements(file)

    assert [element.text for element in elements] == [b"[1]", None, b'["end"]']
    assert elements[-1].end == file.stat().st_size - 1


def test_no_secret_reaches_the_store(folder: Path, file_place: FilePlace) -> None:
    samples = list_samples(Random(3))
    for number, sample in enumerate(samples):
        # Far behind others, at the place where a text is cut, and in the name of the project.
        filler = "word " * ((sessions.MAX_TEXT_CHARS - 40) // 5)
        words = "\n".join((sample.text, filler, sample.text))
        project = sample.secret if find_secrets(sample.secret) else "shop"
        lines = [
            claude_code("user", words, ASKED_AT, cwd=f"/home/{project}"),
            claude_code("assistant", [text(words)], ANSWERED_AT),
        ]
        write_lines(name_session(folder, number), *lines)
    many = "\n".join(sample.text for sample in samples) * 9
    write_lines(name_session(folder, 9_999), claude_code("user", many, ASKED_AT))

    done = file_place.run("import", folder)

    assert f"{len(samples) + 1} added" in done.stderr, done.output
    exported = file_place.export("--namespace", NAMESPACE) + file_place.path.read_bytes()
    shown = exported.decode("utf-8", "replace") + done.output
    leaked = [sample for sample in samples if sample.secret[:40] in shown]
    assert not leaked
    assert "Secrets in it were replaced by marks." in done.stderr


def test_a_long_turn_is_cut_with_a_mark(folder: Path, file_place: FilePlace) -> None:
    write_lines(name_session(folder), claude_code("user", "é" * 300_000, ASKED_AT), *ask(2, "x"))

    done = file_place.run("import", folder)

    assert count(done) == "2 added, 1 adjusted"
    (cut, _) = read_contents(file_place).values()
    assert cut == "é" * sessions.MAX_TEXT_CHARS + " [cut]"


def test_a_point_that_was_tampered_with_is_not_used(folder: Path, file_place: FilePlace) -> None:
    write_lines(name_session(folder), *ask(1), *ask(2))
    import_all(file_place, folder)
    last = list(read_contents(file_place))[-1]

    for point in ({}, {"line": 2, "byte": 10**15}, {"line": 2, "byte": 5}, {"line": [], "byte": 0}):
        change = json.dumps({"key": last, "metadata": point})
        file_place.run("call", "update_memory", change, "--namespace", NAMESPACE)
        assert import_all(file_place, folder) == "1 unchanged, 1 kept"


def test_a_turn_without_a_time_is_imported_once(folder: Path, file_place: FilePlace) -> None:
    write_lines(name_session(folder), claude_code("user", ASKED, "yesterday"))

    assert import_all(file_place, folder) == "1 added"
    assert import_all(file_place, folder) == "1 unchanged"


def test_odd_names_of_projects_and_sessions_give_keys(folder: Path, file_place: FilePlace) -> None:
    for number, cwd in enumerate(["/", "/a/ \ufffdb\tc\u202e", "C:\\x\\shop", "/n/" + "n" * 300]):
        write_lines(name_session(folder, number), claude_code("user", ASKED, ASKED_AT, cwd=cwd))
    for name in ("../../etc", "notes"):
        line = claude_code("user", ASKED, ASKED_AT, sessionId=name)
        write_lines(folder / f"{Path(name).name}.jsonl", line)

    assert import_all(file_place, folder) == "6 added"
    projects = [key.partition("/")[0] for key in read_contents(file_place)]
    assert sorted(projects) == sorted(
        ["claude-code", "_b_c_", "shop", "n" * 80, "tea-shop", "tea-shop"]
    )
    assert import_all(file_place, folder) == "6 unchanged"
