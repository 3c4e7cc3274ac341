"""`abilities doctor` reports what is unsafe or broken, and nothing of a sound configuration.

With `--secrets` it lists what may be read and looks like a secret, never what it is.
"""

import asyncio
import json
import re
import sqlite3
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from abilities import Abilities, Settings
from abilities.cli import checks, doctor
from abilities.cli.checks import Diagnosis
from abilities.cli.doctor import diagnose
from abilities.helpers.files.secret_search import SearchLimits
from abilities.helpers.store.postgres import pool
from abilities.helpers.tokens import TokenFile
from tests.support.stores import store_file
from tests.support.surfaces import run, with_changes


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


def find(settings: Settings, *states: str) -> list[Diagnosis]:
    """Return the findings of some states, by default those of what is unsafe or broken.

    Each of these comes with what to do about it.
    """
    findings = asyncio.run(diagnose(settings))
    assert all(d.mend for d in findings if d.state in ("unsafe", "fails"))

    return [finding for finding in findings if finding.state in (states or ("unsafe", "fails"))]


def describe(settings: Settings, *states: str) -> str:
    """Return the findings of some states, a line for each."""
    return "\n".join(f"{d.state} {d.about}: {d.words}" for d in find(settings, *states))


def test_a_sound_configuration_is_not_blamed(sound: Settings) -> None:
    assert find(sound) == []
    words = {finding.about: finding.words for finding in find(sound, "ok")}
    assert words["store"].endswith("answers: 1 memory in namespace default")
    assert words["tokens"] == "1 token, 0 with write scope; namespaces: default"
    assert words["abilities"] == "17 are offered"


def test_files_that_others_may_read_or_change(sound: Settings) -> None:
    tokens, store = sound.tokens_file, store_file(sound)
    tokens.chmod(0o644)
    store.chmod(0o620)
    assert describe(sound).splitlines() == [
        f"unsafe store: other users can change {store}",
        f"unsafe tokens: other users can read {tokens}",
    ]

    tokens.parent.chmod(0o700)  # nobody else comes as far
    assert find(sound) == []

    store.chmod(0o600)
    tokens.chmod(0o600)
    tokens.parent.chmod(0o777)
    replaced = [f"other users can replace {path}" for path in (store, tokens)]
    assert [finding.words for finding in find(sound)] == replaced

    tokens.parent.chmod(0o755)
    sound.workspace_dir.chmod(0o777)
    assert "every user can write to" in describe(sound)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("disabled", "memory_get,bulk_read_memry", "unsafe abilities: .*'bulk_read_memory'"),
        ("tools", "leen", "fails abilities: .*did you mean 'lean'"),
        ("embedder", "none", "fails embedder: .* install the package that declares it"),
        ("store_url", "sqlite:///{base}/workspace", "fails store: .* name a file in it"),
        ("deny", "*.secret", r"unsafe deny: .*not cover \.env, server\.pem"),
        ("allowed_hosts", "example.org", "fails tokens: .*needs tokens"),
        ("workspace_dir", "/", "fails workspace directory: .*must not be '/'"),
        ("workspace_dir", "{base}/file", "fails workspace directory: .*is not a directory"),
        ("workspace_dir", "{base}/none", "fails workspace .* set workspace_dir to a folder"),
        ("agent_dir", "{base}/none", "fails agent directory"),
        ("agent_dir", "{base}/workspace", "unsafe directories: .*overlap"),
        ("agent_dir", "{base}/workspace/agent", "unsafe directories: .*overlap"),
        ("agent_dir", "{base}", "unsafe directories: .*overlap"),
        ("agent_dir", "{base}/link", "unsafe directories: .*overlap"),
    ],
)
def test_a_setting_that_is_unsafe_or_broken(
    name: str, value: str, said: str, sound: Settings, base: Path
) -> None:
    (base / "file").touch()
    (base / "link").symlink_to(sound.workspace_dir)
    (sound.workspace_dir / "agent").mkdir()
    if name == "allowed_hosts":
        sound.tokens_file.unlink()

    findings = find(with_changes(sound, **{name: value.format(base=base)}))
    lines = [f"{d.state} {d.about}: {d.words}; {d.mend}" for d in findings]
    assert [line for line in lines if re.search(said, line)], lines


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
    for root, name in ((sound.workspace_dir, "workspace"), (sound.agent_dir, "agent")):
        inside = with_changes(sound, store_url=f"sqlite:///{root}/.abilities/memory.db")
        assert f"lies in the {name} directory" in describe(inside, "note")
        assert find(inside) == []

    inside = with_changes(sound, tokens_file=sound.workspace_dir / "tokens.json")
    TokenFile(inside.tokens_file).add("default", "read")
    assert "tokens.json lies in" in describe(inside, "note")


def test_a_store_that_does_not_answer(
    sound: Settings, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT_SECONDS", 1)
    away = store_file(sound).rename(base / "away.db")
    (moved,) = find(sound)
    assert "The store was moved or deleted" in moved.words
    assert "put the file back" in moved.mend and "or remove" not in moved.mend

    away.rename(store_file(sound))
    for suffix in ("", "-wal", "-shm"):
        store_file(sound).with_name(f"memory.db{suffix}").unlink(missing_ok=True)
    store_file(sound).write_bytes(b"no database at all" * 1000)
    assert "The store is damaged" in describe(sound)

    url = "postgresql://user:secret@127.0.0.1:1/none?connect_timeout=1"
    findings = [
        f for f in find(with_changes(sound, store_url=url), "note", "fails") if f.about == "store"
    ]
    assert [finding.state for finding in findings] == ["note", "fails"]
    assert "secret" not in str(findings) and "127.0.0.1:1/none" in findings[1].words

    fresh = with_changes(sound, store_url=f"sqlite:///{base}/fresh/memory.db")
    assert find(fresh) == [] and "created when first used" in describe(fresh, "ok", "note")
    assert not (base / "fresh").exists(), "a store that never was is not made"


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("db.example,localhost/x", "db.example"),
        ("[2001:db8::1]:5432/x", "[2001:db8::1]"),
        ("db.example/x?sslmode=verify-full", None),
        ("localhost/x", None),
        ("[::1]:5432/x", None),
    ],
)
def test_a_database_far_away_without_encryption(address: str, host: str | None) -> None:
    diagnoses = checks.check_connection(f"postgresql://user@{address}")

    unencrypted = [f"the connection to {host} may be unencrypted (sslmode=prefer)"] if host else []
    assert [diagnosis.words for diagnosis in diagnoses] == unencrypted


def test_old_sqlite_and_remote_disks(sound: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, states in (((3, 36, 0), ["fails"]), ((3, 45, 0), ["note"]), ((3, 51, 3), [])):
        monkeypatch.setattr(sqlite3, "sqlite_version_info", number)
        diagnoses = find(sound, "ok", "note", "unsafe", "fails")
        assert [finding.state for finding in diagnoses if finding.about == "SQLite"] == states

    assert checks.find_file_system(Path("/proc/self/stat")) == "proc"
    own = checks.find_file_system(store_file(sound))
    monkeypatch.setattr(checks, "REMOTE_FILE_SYSTEMS", {own})
    assert "network file system" in describe(sound)
    monkeypatch.setattr(checks, "MIN_FREE_BYTES", 10**18)
    assert "are free on its disk" in describe(sound, "note", "unsafe", "fails")


def test_tokens_that_cannot_be_used(sound: Settings) -> None:
    TokenFile(sound.tokens_file).add("other", "write")
    assert "tokens of several namespaces would share files" in describe(sound)

    sound.tokens_file.write_text("[")
    assert "every token is refused" in describe(sound)


def test_who_needs_a_token_and_why(sound: Settings) -> None:
    def describe_tokens(settings: Settings) -> str:
        findings = find(settings, "ok", "note", "unsafe", "fails")
        return "\n".join(f"{d.state} {d.words} {d.mend}" for d in findings if d.about == "tokens")

    opened = with_changes(sound, require_tokens=False)
    assert "note none is needed: require_tokens is set to false" in describe_tokens(opened)

    file = TokenFile(sound.tokens_file)
    file.add("default", "metrics")
    assert "ok 2 tokens, 0 with write scope, 1 for metrics alone" in describe_tokens(sound)

    for token in file.tokens():
        file.revoke(token.id)
    assert "refuses every caller: the tokens file is there" in describe_tokens(sound)

    sound.tokens_file.unlink()
    assert describe_tokens(sound).startswith("ok none is needed: there never was a token")

    async def remember() -> None:
        async with Abilities.open(sound) as abilities:
            await abilities.set_token_mark()

    asyncio.run(remember())
    assert "refuses every caller: the tokens file is gone" in describe_tokens(sound)
    assert find(sound) == []


def test_the_namespaces_of_tokens_are_examined(sound: Settings, base: Path) -> None:
    agent, workspace = base / "agent", base / "workspace"
    settings = with_changes(
        sound,
        agent_dir=agent / "{namespace}",
        workspace_dir=workspace / "{namespace}",
        max_memories=1,
    )
    file = TokenFile(sound.tokens_file)
    for namespace in ("ada", "bob", "eve"):
        file.add(namespace, "write")
    for namespace in ("ada", "eve"):
        (agent / namespace).mkdir()
        (workspace / namespace).mkdir(mode=0o755)
    (workspace / "eve").chmod(0o777)

    findings = find(settings, "ok", "note", "unsafe")
    said = [d for d in findings if d.about.startswith("namespace")]

    def lack(name: str) -> str:
        return f"no files, because there is no {agent}/{name} and no {workspace}/{name}"

    assert [(d.state, d.about, d.words) for d in said] == [
        ("ok", "namespace ada", "0 memories"),
        ("note", "namespace bob", f"0 memories; {lack('bob')}"),
        ("note", "namespace default", f"1 memory; {lack('default')}; max_memories is 1"),
        ("unsafe", "namespace eve", f"every user can write to {workspace}/eve, "
         "and so tell the agent anything"),
        ("ok", "namespace eve", "0 memories"),
    ]  # fmt: skip
    assert f"mkdir -p {agent}/bob" in said[1].mend


def test_a_deny_list_of_ones_own_that_lacks_default_names(sound: Settings) -> None:
    usual = tuple(name for name in sound.deny if name != "*.kdbx")

    assert list(checks.check_deny_list(with_changes(sound, deny=("...", "own.txt")))) == []
    (lacking,) = checks.check_deny_list(with_changes(sound, deny=usual))
    assert f"lacks 1 of the {len(sound.deny)} default entries" in lacking.words


def test_the_command_tells_people_and_programs(sound: Settings) -> None:
    done = run(sound, "doctor", ABILITIES_WORKSPACE="x")
    assert done.exit_code == 0, done.stdout
    assert "ABILITIES_WORKSPACE is ignored" in done.stdout
    assert "ok      store" in done.stdout and "answers: 1 memory" in done.stdout

    sound.tokens_file.chmod(0o666)
    done = run(sound, "doctor", ABILITIES_TOKENS_FILE=str(sound.tokens_file))
    assert done.exit_code == 1
    assert re.search(r"findings: \d+ ok, .*1 unsafe\. Begin with tokens: ", done.stdout)

    done = run(sound, "doctor", "--json", ABILITIES_TOKENS_FILE=str(sound.tokens_file))
    states = [(finding["state"], finding["about"]) for finding in json.loads(done.stdout)]
    assert done.exit_code == 1 and ("unsafe", "tokens") in states


@pytest.mark.thorough
def test_the_command_warns_of_a_settings_file_that_others_can_read(sound: Settings) -> None:
    settings_file = sound.tokens_file.with_name("config.toml")
    settings_file.write_text('store_url = "postgresql://u:p@localhost/none?connect_timeout=1"\n')
    settings_file.chmod(0o644)
    workspace = str(sound.workspace_dir)

    done = run(
        None, "doctor", ABILITIES_CONFIG=str(settings_file), ABILITIES_WORKSPACE_DIR=workspace
    )

    assert done.exit_code == 1 and f"other users can read {settings_file}" in done.stdout


KEY_BLOCK = (
    "-----BEGIN OPENSSH PRIVATE KEY-----\n"
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABCANARYMwAAAAtzc2gt\n"
    "-----END OPENSSH PRIVATE KEY-----\n"
)


def find_exposed(settings: Settings, **limits: int) -> dict[str, str]:
    """Return the states of what `doctor --secrets` says, by its words."""
    diagnoses = list(doctor.check_secrets(settings, SearchLimits(**limits)))

    assert not any("CANARY" in part for diagnosis in diagnoses for part in diagnosis)
    return {diagnosis.words: diagnosis.state for diagnosis in diagnoses}


def test_what_looks_like_a_secret_and_may_be_read_is_listed(sound: Settings) -> None:
    workspace = sound.workspace_dir
    files = {
        "deploy/notes.md": KEY_BLOCK,
        "deploy/db-password.log": "CANARY",
        "deploy/photo.bin": "password\0",
        "deploy/token_count.ts": "CANARY",
        ".ssh/id": KEY_BLOCK,
        ".env": "CANARY",
        "esc\x1b[31m-token.log": "CANARY",
        "../agent/MEMORY.md": KEY_BLOCK,
        "own-token.log": "[]",
    }
    for name, text in files.items():
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text)
    (workspace / "link.md").symlink_to(".ssh/id")
    (workspace / "folder").symlink_to("deploy")

    marked = "; agents read marks in their place"
    settings = with_changes(sound, tokens_file=workspace / "own-token.log")  # which no agent reads
    assert find_exposed(settings) == {
        f"MEMORY.md holds: private key{marked}": "note",
        f"deploy/notes.md holds: private key{marked}": "note",
        "deploy/db-password.log: its name hints at a secret": "note",
        "esc\\u001b[31m-token.log: its name hints at a secret": "note",
        "looked at 5 files that agents may read (100,000 characters of each at most): "
        "4 look like secrets": "ok",
    }
    shown = find_exposed(with_changes(settings, redact=False))
    assert shown["deploy/notes.md holds: private key"] == "unsafe"


def test_what_doctor_advises_refuses_the_file(sound: Settings) -> None:
    odd = ("!old-token.log", 'a"token"\\b', "to\nken/secret.log", "plain*?/my token{a,b}.log")
    for name in odd:
        path = sound.workspace_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")

    diagnoses = list(doctor.check_secrets(sound))
    advice = [tomllib.loads(d.mend.split(": ", 1)[1])["deny"] for d in diagnoses if d.mend]
    names = tuple(name for names in advice for name in names)
    denies = Settings(deny=names).policy.deny.denies

    assert len(advice) == len(odd)
    assert all(denies(name) for name in odd)


def test_a_search_for_secrets_is_bounded_and_says_so(
    sound: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        (sound.workspace_dir / f"token-{number}.log").write_text("x")

    for limits, reason in (
        ({"files": 2}, "enough files were looked at"),
        ({"chars": 2}, "enough text was looked at"),
        ({"seconds": -1}, "it took too long"),
    ):
        words, state = find_exposed(sound, **limits).popitem()
        assert state == "note" and words.endswith(f"stopped, {reason}")

    monkeypatch.setattr(doctor, "MAX_SHOWN", 2)
    shown = find_exposed(sound)
    assert len(shown) == 3 and list(shown)[-1].endswith("4 look like secrets, of which 2 are shown")


def test_a_root_that_is_not_there_holds_no_secrets(sound: Settings) -> None:
    sound.workspace_dir.rmdir()

    assert list(find_exposed(sound).values()) == ["fails", "ok"]


def test_the_command_lists_secrets_for_people_and_programs(sound: Settings) -> None:
    (sound.workspace_dir / "token.log").write_text("CANARY")
    done = run(sound, "doctor", "--secrets")
    assert done.exit_code == 0
    assert "token.log: its name hints at a secret" in done.stdout and "CANARY" not in done.stdout

    (sound.workspace_dir / "a.md").write_text(KEY_BLOCK)
    for redact, code, states in (
        (True, 0, ["note", "note", "ok"]),
        (False, 1, ["unsafe", "note", "ok"]),
    ):
        done = run(with_changes(sound, redact=redact), "doctor", "--secrets", "--json")
        assert done.exit_code == code
        assert [finding["state"] for finding in json.loads(done.stdout)] == states
