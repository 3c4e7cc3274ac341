"""On a terminal nothing of data is obeyed, hidden or begins a line: it is shown as an escape."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from abilities import Abilities, Settings
from abilities.declarations.values import escape_unseen
from abilities.helpers.tokens import TokenFile
from tests.support.plugins import write_distribution
from tests.support.serving import serving
from tests.support.terminals import run_on_terminal

HOSTILE = "a\x1b]0;pwned\x07\x9b31m\u202egpj\u2066\u200b\u2028\x7f\U000e0041\r\nFORGED: line\n"
UNSEEN = [char for char in HOSTILE if not char.isascii()] + ["\x07", "\x7f", "\x1b]", "\nFORGED"]

HOSTILE_POINT = "a\u202egpj\u200b"

PLUGIN = """
from abilities import Arguments, Context, Model, ability
from pydantic import Field

class Words(Arguments):
    words: str = Field(description={text!r})

class Spoken(Model):
    words: str

@ability(description="Speaks.")
async def speak(context: Context, arguments: Words) -> Spoken:
    return Spoken(words=arguments.words)
"""


def check_printed(name: str, printed: str) -> None:
    found = [text for text in UNSEEN if text in printed]
    assert not found, (name, found, printed)


@pytest.fixture
async def hostile(roots: Settings, tmp_path: Path) -> dict[str, str]:
    """The environment of commands whose files and memories hold hostile text."""
    hostile_folder = tmp_path / f"dir{HOSTILE}"
    hostile_folder.mkdir()
    (roots.workspace_dir / "a.txt").write_text(HOSTILE)

    async with Abilities.open(roots) as abilities:
        memory = {"type": "core", "key": "tea", "content": HOSTILE, "tags": ["t\u200b"]}
        await abilities.call("store_memory", memory)

    return {
        "ABILITIES_AGENT_DIR": str(roots.agent_dir),
        "ABILITIES_WORKSPACE_DIR": str(roots.workspace_dir),
        "ABILITIES_STORE_URL": roots.store_url,
        "HOSTILE_FOLDER": str(hostile_folder),
    }


async def test_no_command_lets_data_steer_a_terminal(hostile: dict[str, str]) -> None:
    folder = hostile["HOSTILE_FOLDER"]
    records = Path(folder, "memory.jsonl")
    records.write_text(json.dumps({"type": "entity", "name": HOSTILE, "observations": [HOSTILE]}))
    read = json.dumps({"paths": ["a.txt", HOSTILE]})

    commands = {
        "json": ["call", "file_read_bulk", read],
        "table": ["call", "file_read_bulk", read, "--pretty"],
        "import": ["import", str(records)],
        "unknown": ["call", HOSTILE],
    }
    for name, command in commands.items():
        printed = run_on_terminal(*command, variables=hostile)

        check_printed(name, printed)
        assert name == "import" or "u202e" in printed, (name, printed)

    answer = json.loads(run_on_terminal(*commands["json"], variables=hostile))
    assert answer["results"][0]["data"]["content"] == HOSTILE


@pytest.mark.thorough
async def test_no_command_for_stores_tokens_and_plugins_lets_data_steer_a_terminal(
    hostile: dict[str, str], tmp_path: Path
) -> None:
    folder = Path(hostile["HOSTILE_FOLDER"])
    store = Path(hostile["ABILITIES_STORE_URL"].removeprefix("sqlite:///"))
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    points = {"hostile": "hostile:speak", "broken": "broken:none", HOSTILE_POINT: "x"}
    modules = {
        "hostile": PLUGIN.format(text=HOSTILE),
        "broken": f"raise ValueError({HOSTILE!r})",
    }
    write_distribution(plugins, modules, points)
    tokens = folder / "tokens.json"
    write_hostile_label(tokens)
    moved = folder / "memory.db"
    variables = {
        **hostile,
        "PYTHONPATH": str(plugins),
        "ABILITIES_TOKENS_FILE": str(tokens),
        "ABILITIES_STORE_URL": f"sqlite:///{moved}",
    }
    shutil.copy(store, moved)
    copy = str(folder / "copy.db")

    commands = {
        "memory": ["call", "memory_get", '{"key": "tea"}'],
        "pretty": ["call", "memory_get", '{"key": "tea"}', "--pretty"],
        "export on screen": ["export"],
        "doctor": ["--workspace-dir", str(folder), "doctor"],
        "missing": ["--workspace-dir", f"{folder}/none", "call", "file_list"],
        "option": [f"--{HOSTILE}"],
        "list": ["list"],
        "describe": ["describe", "speak"],
        "declaration": ["describe", "speak", "--json"],
        "tokens": ["token", "list"],
        "graph": ["graph", "tea"],
        "drawing": ["graph", "tea", "-o", str(folder / "drawing.txt")],
        "backup": ["backup", copy],
        "backup again": ["backup", copy],
        "restore": ["restore", copy, "--replace"],
        "check": ["check"],
        "export": ["export", str(folder / "export.jsonl")],
        "dry repair": ["repair", "--dry-run"],
        "repair": ["repair"],
    }
    printed: dict[str, str] = {}
    for name, command in commands.items():
        if name == "check":
            damage(moved)

        printed[name] = run_on_terminal(*command, variables=variables)
        check_printed(name, printed[name])

    silent = [name for name, text in printed.items() if "u202e" not in text]
    assert silent == ["tokens"], [printed[name] for name in silent]


@pytest.mark.thorough
def test_the_log_of_a_server_is_lines_of_its_own(roots: Settings, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.json"
    secret = write_hostile_label(tokens)
    settings = roots.model_copy(update={"tokens_file": tokens})

    with serving(settings, tmp_path) as server:
        for path in (f"abilities/{quote(HOSTILE)}", "abilities/file_list"):
            headers = {"Authorization": f"Bearer {secret}"}
            httpx.post(f"{server.address}/api/{path}", json={HOSTILE: HOSTILE}, headers=headers)
        log = server.stop()

    check_printed("log", log)
    assert [json.loads(line) for line in log.splitlines()]
    assert "gpj" in log


def write_hostile_label(tokens: Path) -> str:
    """Make a token whose label somebody has written into the file; return its secret."""
    _, secret = TokenFile(tokens).add("default", "read", "label")
    entries = json.loads(tokens.read_text())
    entries[0]["label"] = HOSTILE
    tokens.write_text(json.dumps(entries))
    return secret


def damage(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE memories SET key = ?", (HOSTILE,))


def test_escaped_json_means_the_same_and_other_text_stays() -> None:
    value = {HOSTILE: [HOSTILE, "Grüße 世界 ñ\n"]}
    document = json.dumps(value, ensure_ascii=False)

    assert json.loads(escape_unseen(document)) == value
    assert escape_unseen("Grüße 世界 a\\u202e 🙂") == "Grüße 世界 a\\u202e 🙂"
    assert escape_unseen("\ud800\n\t", keep="\n\t") == "\\ud800\n\t"
