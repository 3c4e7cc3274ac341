"""`abilities doctor --secrets` lists what may be read and looks like a secret, never what it is."""

import json
import tomllib

import pytest

from abilities import Settings
from abilities.cli import doctor
from abilities.helpers.files.secret_search import SearchLimits
from tests.surfaces.test_cli import run

KEY_BLOCK = "\n".join(
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABCANARYMwAAAAtzc2gt",
        "-----END OPENSSH PRIVATE KEY-----\n",
    ]
)


def find_exposed(settings: Settings, **limits: int) -> dict[str, str]:
    """Return the states of what `doctor --secrets` says, by its words."""
    diagnoses = list(doctor.check_secrets(settings, SearchLimits(**limits)))

    assert not any("CANARY" in part for diagnosis in diagnoses for part in diagnosis)
    return {diagnosis.words: diagnosis.state for diagnosis in diagnoses}


def test_what_looks_like_a_secret_and_may_be_read_is_listed(sound: Settings) -> None:
    workspace = sound.workspace_dir
    (workspace / "deploy").mkdir()
    (workspace / ".ssh").mkdir()
    (workspace / "deploy" / "notes.md").write_text(KEY_BLOCK)
    (workspace / "deploy" / "db-password.log").write_text("CANARY")
    (workspace / "deploy" / "photo.bin").write_bytes(b"password\0")
    (workspace / "deploy" / "token_count.ts").write_text("CANARY")
    (workspace / ".ssh" / "id").write_text(KEY_BLOCK)
    (workspace / ".env").write_text("CANARY")
    (workspace / "link.md").symlink_to(".ssh/id")
    (workspace / "folder").symlink_to("deploy")
    (workspace / "esc\x1b[31m-token.log").write_text("CANARY")
    (sound.agent_dir / "MEMORY.md").write_text(KEY_BLOCK)

    marked = "; agents read marks in their place"
    assert find_exposed(sound) == {
        f"MEMORY.md holds: private key{marked}": "note",
        f"deploy/notes.md holds: private key{marked}": "note",
        "deploy/db-password.log: its name hints at a secret": "note",
        "esc\\u001b[31m-token.log: its name hints at a secret": "note",
        "looked at 5 files that agents may read (100,000 characters of each at most): "
        "4 look like secrets": "ok",
    }


def test_a_secret_that_agents_can_read_is_a_finding(sound: Settings) -> None:
    (sound.workspace_dir / "notes.md").write_text(KEY_BLOCK)

    shown = find_exposed(sound.model_copy(update={"redact": False}))

    assert shown["notes.md holds: private key"] == "unsafe"


def test_our_own_files_are_not_listed_for_no_agent_reads_them(sound: Settings) -> None:
    settings = sound.model_copy(update={"tokens_file": sound.workspace_dir / "tokens"})
    settings.tokens_file.write_text("[]")
    (sound.workspace_dir / "other-token.log").write_text("x")

    listed = [words for words in find_exposed(settings) if "hints" in words]

    assert listed == ["other-token.log: its name hints at a secret"]


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


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"files": 2}, "enough files were looked at"),
        ({"chars": 2}, "enough text was looked at"),
        ({"seconds": -1}, "it took too long"),
    ],
)
def test_a_search_for_secrets_is_bounded_and_says_so(
    sound: Settings, limits: dict[str, int], reason: str
) -> None:
    for number in range(5):
        (sound.workspace_dir / f"{number}.txt").write_text("x")

    words, state = find_exposed(sound, **limits).popitem()

    assert state == "note" and words.endswith(f"stopped, {reason}")


def test_only_so_many_files_are_shown(sound: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MAX_SHOWN", 2)
    for number in range(4):
        (sound.workspace_dir / f"token-{number}.log").write_text("x")

    shown = find_exposed(sound)

    assert len(shown) == 3 and list(shown)[-1].endswith("4 look like secrets, of which 2 are shown")


def test_roots_that_are_not_there_hold_no_secrets(sound: Settings) -> None:
    sound.workspace_dir.rmdir()

    words = list(find_exposed(sound).items())

    assert words[0][1] == "fails" and words[-1][0].endswith("none looks like a secret")


def test_the_command_lists_secrets_for_people_and_programs(sound: Settings) -> None:
    (sound.workspace_dir / "token.log").write_text("CANARY")
    done = run(sound, "doctor", "--secrets")
    assert done.exit_code == 0
    assert "token.log: its name hints at a secret" in done.stdout and "CANARY" not in done.stdout

    (sound.workspace_dir / "a.md").write_text(KEY_BLOCK)
    done = run(sound, "doctor", "--secrets", "--json")
    assert done.exit_code == 0
    assert [finding["state"] for finding in json.loads(done.stdout)] == ["note", "note", "ok"]

    shown = sound.model_copy(update={"redact": False})
    done = run(shown, "doctor", "--secrets", "--json")
    assert done.exit_code == 1
    assert [finding["state"] for finding in json.loads(done.stdout)] == ["unsafe", "note", "ok"]
