"""`abilities doctor` reports what is unsafe or broken, and nothing of a sound configuration."""

import asyncio
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from abilities import Abilities, Settings
from abilities.cli import checks, store_checks
from abilities.cli.checks import Diagnosis
from abilities.cli.doctor import diagnose, summarize
from abilities.helpers.store.postgres import pool
from abilities.helpers.tokens import TokenFile
from tests.support.stores import store_file
from tests.surfaces.test_cli import run


def find_problems(settings: Settings) -> list[Diagnosis]:
    """Return what is unsafe or broken; each comes with what to do about it."""
    diagnoses = asyncio.run(diagnose(settings))
    problems = [diagnosis for diagnosis in diagnoses if diagnosis.state in ("unsafe", "fails")]

    assert all(problem.mend for problem in problems)
    return problems


def describe_problems(settings: Settings) -> str:
    problems = find_problems(settings)
    return "\n".join(f"{problem.state} {problem.about}: {problem.words}" for problem in problems)


def describe_notes(settings: Settings) -> str:
    diagnoses = asyncio.run(diagnose(settings))
    return "\n".join(diagnosis.words for diagnosis in diagnoses if diagnosis.state == "note")


def change_settings(settings: Settings, **values: Any) -> Settings:
    return Settings(**{**settings.model_dump(exclude_unset=True), **values})


def test_a_sound_configuration_is_not_blamed(sound: Settings) -> None:
    assert find_problems(sound) == []
    words = {finding.about: finding.words for finding in asyncio.run(diagnose(sound))}
    assert words["store"].endswith("answers: 1 memory in namespace default")
    assert words["tokens"] == "1 token, 0 with write scope; namespaces: default"
    assert words["abilities"] == "17 are offered"


def test_a_disabled_name_that_disables_nothing(sound: Settings) -> None:
    settings = change_settings(sound, disabled=("memory_get", "bulk_read_memry"))
    assert describe_problems(settings) == (
        "unsafe abilities: disabled: 'bulk_read_memry' is not an ability, so it disables nothing; "
        "did you mean 'bulk_read_memory'?"
    )


def test_files_that_others_may_read_or_change(sound: Settings) -> None:
    sound.tokens_file.chmod(0o644)
    store_file(sound).chmod(0o620)
    assert describe_problems(sound) == (
        f"unsafe store: other users can change {store_file(sound)}\n"
        f"unsafe tokens: other users can read {sound.tokens_file}"
    )

    sound.tokens_file.parent.chmod(0o700)  # nobody else comes as far
    assert find_problems(sound) == []

    store_file(sound).chmod(0o600)
    sound.tokens_file.chmod(0o600)
    sound.tokens_file.parent.chmod(0o777)
    assert [finding.words for finding in find_problems(sound)] == [
        f"other users can replace {path}" for path in (store_file(sound), sound.tokens_file)
    ]

    sound.tokens_file.parent.chmod(0o755)
    sound.workspace_dir.chmod(0o777)
    assert "every user can write to" in describe_problems(sound)


def test_directories_that_overlap_or_are_not_there(sound: Settings, base: Path) -> None:
    for agent in (sound.workspace_dir, sound.workspace_dir / "agent", base):
        agent.mkdir(exist_ok=True)
        assert "overlap" in describe_problems(change_settings(sound, agent_dir=agent))
    (base / "link").symlink_to(sound.workspace_dir)
    assert "overlap" in describe_problems(change_settings(sound, agent_dir=base / "link"))
    assert "fails agent directory" in describe_problems(
        change_settings(sound, agent_dir=base / "none")
    )
    (base / "file").touch()
    assert "is not a directory" in describe_problems(
        change_settings(sound, workspace_dir=base / "file")
    )
    assert "must not be '/'" in describe_problems(change_settings(sound, workspace_dir="/"))


@pytest.fixture
def shut(base: Path) -> Path:
    """A directory that nobody but root may read."""
    (base / "shut").mkdir(mode=0)
    return base / "shut"


def test_a_directory_that_may_not_be_read(shut: Path, unprivileged: None) -> None:
    workspace = Settings(workspace_dir=shut).workspace_root
    assert workspace is not None

    finding = checks.check_folder(workspace)

    assert finding.state == "fails" and "cannot read" in finding.words


def test_a_store_or_tokens_inside_a_root(sound: Settings) -> None:
    for root, words in (
        (sound.workspace_dir, "the workspace directory"),
        (sound.agent_dir, "the agent directory"),
    ):
        inside = change_settings(sound, store_url=f"sqlite:///{root}/.abilities/memory.db")
        assert f"lies in {words}: the abilities refuse to read it" in describe_notes(inside)
        assert find_problems(inside) == []
    inside = change_settings(sound, tokens_file=sound.workspace_dir / "tokens.json")
    TokenFile(inside.tokens_file).add("default", "read")
    assert "tokens.json lies in" in describe_notes(inside)


def test_a_store_that_does_not_answer(
    sound: Settings, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 1)
    away = store_file(sound).rename(base / "away.db")
    (moved,) = find_problems(sound)
    assert "The store was moved or deleted" in moved.words
    assert "put the file back" in moved.mend and "or remove" not in moved.mend

    away.rename(store_file(sound)).write_bytes(b"no database at all" * 1000)
    for suffix in ("-wal", "-shm"):
        store_file(sound).with_name(f"memory.db{suffix}").unlink(missing_ok=True)
    assert "The store is damaged" in describe_problems(sound)

    unreachable = change_settings(
        sound, store_url="postgresql://user:secret@127.0.0.1:1/none?connect_timeout=1"
    )
    findings = [f for f in asyncio.run(diagnose(unreachable)) if f.about == "store"]
    assert [finding.state for finding in findings] == ["note", "fails"]
    assert "secret" not in str(findings) and "127.0.0.1:1/none" in findings[1].words


def test_a_store_that_never_was_is_not_made(sound: Settings, base: Path) -> None:
    fresh = change_settings(sound, store_url=f"sqlite:///{base}/fresh/memory.db")
    assert find_problems(fresh) == [] and not (base / "fresh").exists()


def test_a_database_far_away_without_encryption(sound: Settings) -> None:
    diagnoses = list(store_checks.check_connection("postgresql://user@db.example,localhost/x"))
    assert [diagnosis.words for diagnosis in diagnoses] == [
        "the connection to db.example may be unencrypted (sslmode=prefer)"
    ]
    assert (
        list(store_checks.check_connection("postgresql://user@db.example/x?sslmode=verify-full"))
        == []
    )
    assert list(store_checks.check_connection("postgresql://user@localhost/x")) == []
    assert list(store_checks.check_connection("postgresql://user@[::1]:5432/x")) == []
    (remote,) = store_checks.check_connection("postgresql://user@[2001:db8::1]:5432/x")
    assert "to [2001:db8::1] may be unencrypted" in remote.words


def test_old_sqlite_and_remote_disks(sound: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, state in (((3, 36, 0), "fails"), ((3, 45, 0), "note")):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", number)
        diagnoses = asyncio.run(diagnose(sound))
        assert [finding.state for finding in diagnoses if finding.about == "SQLite"] == [state]

    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    assert not [finding for finding in asyncio.run(diagnose(sound)) if finding.about == "SQLite"]
    assert store_checks.find_file_system(Path("/proc/self/stat")) == "proc"
    monkeypatch.setattr(
        store_checks, "REMOTE_FILE_SYSTEMS", {store_checks.find_file_system(store_file(sound))}
    )
    assert "network file system" in describe_problems(sound)
    monkeypatch.setattr(store_checks, "MIN_FREE_BYTES", 10**18)
    assert any("are free on its disk" in finding.words for finding in asyncio.run(diagnose(sound)))


def test_tokens_that_cannot_be_used(sound: Settings) -> None:
    TokenFile(sound.tokens_file).add("other", "write")
    assert "tokens of several namespaces would share files" in describe_problems(sound)

    sound.tokens_file.write_text("[")
    assert "every token is refused" in describe_problems(sound)

    sound.tokens_file.unlink()
    assert "allowed_hosts (example.org) needs tokens" in describe_problems(
        change_settings(sound, allowed_hosts="example.org")
    )


def describe_tokens(settings: Settings) -> str:
    """Return all that is said of tokens, one line each."""
    diagnoses = asyncio.run(diagnose(settings))
    lines = [f"{d.state} {d.words} {d.mend}" for d in diagnoses if d.about == "tokens"]
    return "\n".join(lines)


def test_who_needs_a_token_and_why(sound: Settings) -> None:
    opened = change_settings(sound, require_tokens=False)
    assert "note none is needed: require_tokens is set to false" in describe_tokens(opened)

    file = TokenFile(sound.tokens_file)
    file.add("default", "metrics")
    assert describe_tokens(sound).startswith(
        "ok 2 tokens, 0 with write scope, 1 for metrics alone; namespaces: default"
    )

    for token in file.tokens():
        file.revoke(token.id)
    assert "note 'abilities serve' refuses every caller: the tokens file is there, but" in (
        describe_tokens(sound)
    )

    sound.tokens_file.unlink()
    assert describe_tokens(sound).startswith("ok none is needed: there never was a token")

    async def remember() -> None:
        async with Abilities.open(sound) as abilities:
            await abilities.set_token_mark()

    asyncio.run(remember())
    words = describe_tokens(sound)
    assert "refuses every caller: the tokens file is gone, and the store remembers" in words
    assert "abilities token add" in words and "require_tokens = false" in words
    assert find_problems(sound) == []


def test_the_namespaces_of_tokens_are_examined(sound: Settings, base: Path) -> None:
    settings = change_settings(
        sound,
        agent_dir=base / "agent" / "{namespace}",
        workspace_dir=base / "workspace" / "{namespace}",
        max_memories=1,
    )
    file = TokenFile(sound.tokens_file)
    for namespace in ("ada", "bob", "eve"):
        file.add(namespace, "write")
    for namespace in ("ada", "eve"):
        (base / "agent" / namespace).mkdir()
        (base / "workspace" / namespace).mkdir(mode=0o755)
    (base / "workspace" / "eve").chmod(0o777)

    findings = [d for d in asyncio.run(diagnose(settings)) if d.about.startswith("namespace")]

    places = f"no {base}/agent/bob and no {base}/workspace/bob"
    assert [(d.state, d.about, d.words) for d in findings] == [
        ("ok", "namespace ada", "0 memories"),
        ("note", "namespace bob", f"0 memories; no files, because there is {places}"),
        ("note", "namespace default", "1 memory; no files, because there is "
         f"no {base}/agent/default and no {base}/workspace/default; max_memories is 1"),
        ("unsafe", "namespace eve", f"every user can write to {base}/workspace/eve, "
         "and so tell the agent anything"),
        ("ok", "namespace eve", "0 memories"),
    ]  # fmt: skip
    assert f"mkdir -p {base}/agent/bob" in findings[1].mend


def test_the_last_line_counts_the_findings_and_names_the_first_step(sound: Settings) -> None:
    sound.tokens_file.chmod(0o644)
    store_file(sound).write_bytes(b"no store")
    for suffix in ("-wal", "-shm"):
        store_file(sound).with_name(f"memory.db{suffix}").unlink(missing_ok=True)

    findings = asyncio.run(diagnose(sound))

    assert re.fullmatch(
        rf"{len(findings)} findings: \d+ ok, (\d+ notes?, )?1 unsafe, 1 fails\. "
        r"Begin with store: .* let store_url name another file, .*",
        summarize(findings),
    ), summarize(findings)


def test_a_deny_list_with_holes(sound: Settings) -> None:
    assert "does not cover .env, server.pem" in describe_problems(
        change_settings(sound, deny="*.secret")
    )


def test_a_deny_list_of_ones_own_that_lacks_default_names(sound: Settings) -> None:
    usual = tuple(name for name in sound.deny if name != "*.kdbx")

    def describe(settings: Settings) -> list[str]:
        return [d.words for d in checks.check_deny_list(settings)]

    assert describe(change_settings(sound, deny=("...", "own.txt"))) == []
    assert describe(change_settings(sound, deny=usual)) == [
        f"the deny list lacks 1 of the {len(sound.deny)} default entries"
    ]


def test_the_command_tells_people_and_programs(sound: Settings) -> None:
    done = run(sound, "doctor")
    assert done.exit_code == 0, done.stdout
    assert "ok      store" in done.stdout and "answers: 1 memory" in done.stdout

    sound.tokens_file.chmod(0o666)
    done = run(sound, "doctor", "--json", ABILITIES_TOKENS_FILE=str(sound.tokens_file))
    findings = json.loads(done.stdout)
    first_unsafe = next(finding for finding in findings if finding["state"] == "unsafe")
    assert done.exit_code == 1
    assert {"state": "unsafe", "about": "tokens"}.items() <= first_unsafe.items()


@pytest.mark.thorough
def test_the_command_warns_of_a_settings_file_that_others_can_read(sound: Settings) -> None:
    settings_file = sound.tokens_file.with_name("config.toml")
    settings_file.write_text('store_url = "postgresql://u:p@localhost/none?connect_timeout=1"\n')
    settings_file.chmod(0o644)
    done = run(
        None,
        "doctor",
        ABILITIES_CONFIG=str(settings_file),
        ABILITIES_WORKSPACE_DIR=str(sound.workspace_dir),
    )
    assert done.exit_code == 1 and f"other users can read {settings_file}" in done.stdout
