"""`abilities doctor`: each unsafe or broken thing is found and said, and a sound configuration is not blamed."""

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings
from abilities.cli import diagnosis
from abilities.cli.diagnosis import Diagnosis, diagnose
from abilities.helpers.files.confinement import Root
from abilities.helpers.tokens import TokenFile
from tests.support.stores import store_file
from tests.surfaces.test_cli import run


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that others may enter, as a home may be."""
    with tempfile.TemporaryDirectory(prefix="abilities-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def sound(base: Path) -> Settings:
    """Two roots, a store with a memory and a token, all of them private and apart."""
    for name in ("agent", "workspace", "state"):
        (base / name).mkdir()
        (base / name).chmod(0o755)
    settings = Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{base}/state/memory.db",
        tokens_file=base / "state" / "tokens.json",
    )
    TokenFile(settings.tokens_file).add("default", "read")

    async def fill() -> None:
        async with Abilities.open(settings) as abilities:
            await abilities.call("store_memory", {"type": "core", "content": "x"})

    asyncio.run(fill())
    return settings


def wrongs(settings: Settings) -> list[Diagnosis]:
    """What is unsafe or broken, with what to do about it."""
    found = [
        finding
        for finding in asyncio.run(diagnose(settings))
        if finding.state in ("unsafe", "broken")
    ]
    assert all(finding.mend for finding in found)
    return found


def told(settings: Settings) -> str:
    return "\n".join(
        f"{finding.state} {finding.about}: {finding.words}" for finding in wrongs(settings)
    )


def changed(settings: Settings, **values: Any) -> Settings:
    return Settings(**{**settings.model_dump(exclude_unset=True), **values})


def test_a_sound_configuration_is_not_blamed(sound: Settings) -> None:
    assert wrongs(sound) == []
    words = {finding.about: finding.words for finding in asyncio.run(diagnose(sound))}
    assert words["store"].endswith("answers: 1 memories in namespace default")
    assert words["tokens"] == "1, of which 0 may write, for default"
    assert words["abilities"] == "10 are offered"


def test_files_that_others_may_read_or_change(sound: Settings) -> None:
    sound.tokens_file.chmod(0o644)
    store_file(sound).chmod(0o620)
    assert told(sound) == (
        f"unsafe store: other users may change {store_file(sound)}\n"
        f"unsafe tokens: other users may read {sound.tokens_file}"
    )
    sound.tokens_file.parent.chmod(0o700)  # nobody else comes as far
    assert wrongs(sound) == []
    store_file(sound).chmod(0o600)
    sound.tokens_file.chmod(0o600)
    sound.tokens_file.parent.chmod(0o777)
    assert [finding.words for finding in wrongs(sound)] == [
        f"other users may replace {path}" for path in (store_file(sound), sound.tokens_file)
    ]
    sound.tokens_file.parent.chmod(0o755)
    sound.workspace_dir.chmod(0o777)
    assert "everybody may write into" in told(sound)


def test_directories_that_overlap_or_are_not_there(sound: Settings, base: Path) -> None:
    for agent in (sound.workspace_dir, sound.workspace_dir / "agent", base):
        agent.mkdir(exist_ok=True)
        assert "overlap" in told(changed(sound, agent_dir=agent))
    (base / "link").symlink_to(sound.workspace_dir)
    assert "overlap" in told(changed(sound, agent_dir=base / "link"))
    assert "broken agent directory" in told(changed(sound, agent_dir=base / "none"))
    (base / "file").touch()
    assert "is no directory" in told(changed(sound, workspace_dir=base / "file"))
    assert "must not be '/'" in told(changed(sound, workspace_dir="/"))


@pytest.fixture
def shut(base: Path) -> Path:
    """A directory that nobody but root may read."""
    (base / "shut").mkdir(mode=0)
    return base / "shut"


def test_a_directory_that_may_not_be_read(shut: Path, unprivileged: None) -> None:
    finding = diagnosis._root(Root("workspace", shut))
    assert finding.state == "broken" and "may not be read" in finding.words


def test_a_store_or_tokens_inside_a_root(sound: Settings) -> None:
    for place, words in (
        (sound.workspace_dir, "the workspace directory"),
        (sound.agent_dir, "the agent directory"),
    ):
        inside = changed(sound, store_url=f"sqlite:///{place}/memory.db")
        assert f"lies in {words}" in told(inside)
        hidden = changed(sound, store_url=f"sqlite:///{place}/.abilities/memory.db")
        assert wrongs(hidden) == []  # the deny list keeps it from agents
    inside = changed(sound, tokens_file=sound.workspace_dir / "tokens.json")
    TokenFile(inside.tokens_file).add("default", "read")
    assert "tokens.json lies in" in told(inside)


def test_a_store_that_does_not_answer(sound: Settings, base: Path) -> None:
    away = store_file(sound).rename(base / "away.db")
    assert "The store was moved or deleted" in told(sound)
    away.rename(store_file(sound)).write_bytes(b"no database at all" * 1000)
    for suffix in ("-wal", "-shm"):
        store_file(sound).with_name(f"memory.db{suffix}").unlink(missing_ok=True)
    assert "The store is damaged" in told(sound)
    unreachable = changed(
        sound, store_url="postgresql://user:secret@127.0.0.1:1/none?connect_timeout=1"
    )
    said = [finding for finding in asyncio.run(diagnose(unreachable)) if finding.about == "store"]
    assert [finding.state for finding in said] == ["note", "broken"]
    assert "secret" not in str(said) and "127.0.0.1:1/none" in said[1].words


def test_a_store_that_never_was_is_not_made(sound: Settings, base: Path) -> None:
    fresh = changed(sound, store_url=f"sqlite:///{base}/fresh/memory.db")
    assert wrongs(fresh) == [] and not (base / "fresh").exists()


def test_a_database_far_away_without_encryption(sound: Settings) -> None:
    found = list(diagnosis._database("postgresql://user@db.example,localhost/x"))
    assert [f.words for f in found] == [
        "the way to db.example need not be encrypted (sslmode=prefer)"
    ]
    assert list(diagnosis._database("postgresql://user@db.example/x?sslmode=verify-full")) == []
    assert list(diagnosis._database("postgresql://user@localhost/x")) == []


def test_old_sqlite_and_remote_disks(sound: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, state in (((3, 36, 0), "broken"), ((3, 45, 0), "note")):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", number)
        found = [finding for finding in asyncio.run(diagnose(sound)) if finding.about == "SQLite"]
        assert [finding.state for finding in found] == [state]
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    assert not [finding for finding in asyncio.run(diagnose(sound)) if finding.about == "SQLite"]
    assert diagnosis._file_system(Path("/proc/self/stat")) == "proc"
    monkeypatch.setattr(diagnosis, "_REMOTE", {diagnosis._file_system(store_file(sound))})
    assert "network file system" in told(sound)
    monkeypatch.setattr(diagnosis, "_FREE", 10**18)
    assert any("are free on its disk" in finding.words for finding in asyncio.run(diagnose(sound)))


def test_tokens_that_cannot_be_used(sound: Settings) -> None:
    TokenFile(sound.tokens_file).add("other", "write")
    assert "tokens of several namespaces would share files" in told(sound)
    sound.tokens_file.write_text("[")
    assert "everybody is refused" in told(sound)
    sound.tokens_file.unlink()
    assert "allowed_hosts (example.org) needs tokens" in told(
        changed(sound, allowed_hosts="example.org")
    )


def test_a_deny_list_with_holes(sound: Settings) -> None:
    assert "does not cover .env, server.pem" in told(changed(sound, deny="*.secret"))


def test_the_command_tells_people_and_programs(sound: Settings) -> None:
    done = run(sound, "doctor")
    assert done.returncode == 0, done.stdout
    assert b"ok      store" in done.stdout and b"answers: 1 memories" in done.stdout
    sound.tokens_file.chmod(0o666)
    done = run(sound, "doctor", "--json", ABILITIES_TOKENS_FILE=str(sound.tokens_file))
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert {"state": "unsafe", "about": "tokens"}.items() <= next(
        f for f in found if f["state"] == "unsafe"
    ).items()
    settings_file = sound.tokens_file.with_name("config.toml")
    settings_file.write_text('store_url = "postgresql://u:p@localhost/none?connect_timeout=1"\n')
    settings_file.chmod(0o644)
    done = run(
        None,
        "doctor",
        ABILITIES_CONFIG=str(settings_file),
        ABILITIES_WORKSPACE_DIR=str(sound.workspace_dir),
    )
    assert done.returncode == 1 and f"other users may read {settings_file}" in done.stdout.decode()
