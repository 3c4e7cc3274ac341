"""Settings: where they come from, and what is not accepted."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from abilities import Abilities, Settings
from abilities.adapters.langchain import load_tools
from abilities.helpers.files.secret_names import list_denied
from abilities.settings import list_unknown_variables


def test_defaults_are_the_current_directory_and_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")

    settings = Settings()

    assert settings.workspace_dir == tmp_path
    assert settings.agent_dir == Path("/home/ada/.abilities/agent")
    assert settings.store_url == "sqlite:///~/.abilities/memory.db"
    assert settings.deny == list_denied()
    assert settings.max_response_bytes == 64_000


def test_arguments_win_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "abilities.toml"
    file.write_text(
        'namespace = "file"\ntimezone = "Asia/Tokyo"\n'
        'max_response_bytes = 50000\ndisabled = ["a"]\n'
    )
    monkeypatch.setenv("ABILITIES_CONFIG", str(file))
    monkeypatch.setenv("ABILITIES_NAMESPACE", "environment")
    monkeypatch.setenv("ABILITIES_TIMEZONE", "Europe/Berlin")

    settings = Settings(namespace="argument")

    assert (settings.namespace, settings.timezone) == ("argument", "Europe/Berlin")
    assert (settings.max_response_bytes, settings.disabled) == (50_000, ("a",))


def test_names_come_as_a_list_or_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABILITIES_DENY", "*.secret, private/** ,!ok.secret")

    settings = Settings()

    assert settings.deny == ("*.secret", "private/**", "!ok.secret")
    denies = settings.policy.deny.denies
    assert denies("a/x.SECRET") and denies("private/deep/y")
    assert not denies("ok.secret") and not denies(".env")


def test_dots_stand_for_the_default_names_of_skipped_folders() -> None:
    assert Settings(skip=("...", "vendor")).skip == (*Settings().skip, "vendor")
    assert Settings(skip=("vendor",)).policy.skip == {"vendor"}


WRONG: dict[str, list[object]] = {
    "namespace": ["../x", "a\n", "", "a" * 129, "a b", "ä", "a%2e", None, True, 4.2],
    "timezone": ["Mars/Olympus", "../../etc/passwd"],
    "max_response_bytes": [39_999, 1_000_001],
    "follow_symlinks": ["always"],
    "long_term_file": ["/etc/passwd"],
    "short_term_file": ["../%Y.md"],
    "memory_layout": ["other"],
    "skip": [["web/dist"], "dist,*cache*"],
    "no_such_setting": [1],
}


@pytest.mark.parametrize("field", WRONG)
def test_what_is_out_of_bounds_is_refused(field: str) -> None:
    for value in WRONG[field]:
        with pytest.raises(ValidationError):
            Settings(**{field: value})  # type: ignore[arg-type]


def test_a_wrong_setting_names_the_place_where_it_was_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "abilities.toml"
    file.write_text(
        'short_term_file = """\nhistory_days = 1\n"""\n'
        "timezone = 4\n"
        '"history_days" = -1\n'
        "\n"
        "[tools]\n"
    )
    monkeypatch.setenv("ABILITIES_CONFIG", str(file))
    monkeypatch.setenv("abilities_Redact", "perhaps")
    monkeypatch.setenv("ABILITIES_TIMEZONE", "Mars")

    with pytest.raises(ValidationError) as caught:
        Settings(detail="short", namespac="ada")  # type: ignore[arg-type, call-arg]

    mistakes = {str(error["loc"][0]): error["msg"] for error in caught.value.errors()}
    places = {name: message.rpartition(" (")[2] for name, message in mistakes.items()}
    assert places == {
        "detail": "the argument detail)",
        "namespac": "the argument namespac)",
        "redact": "abilities_Redact)",
        "timezone": "ABILITIES_TIMEZONE)",
        "history_days": f"{file}, line 5)",
        "tools": f"{file}, line 7)",
    }
    assert "'full' or 'concise'" in mistakes["detail"]
    assert "did you mean namespace?" in mistakes["namespac"]


def test_no_wrong_setting_is_quoted_because_it_may_hold_a_password() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(store_url="postgres//ada:secret@host/x", nothing="secret")  # type: ignore[call-arg]

    assert "secret" not in str(caught.value) and "secret" not in str(caught.value.errors())


def test_variables_that_are_no_settings_are_found_but_not_those_of_a_platform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ABILITIES_PORT", "tcp://10.0.0.1:8642")
    monkeypatch.setenv("ABILITIES_PORT_8642_TCP", "tcp://10.0.0.1:8642")
    monkeypatch.setenv("ABILITIES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("ABILITIES_CONFIG", "/none")
    monkeypatch.setenv("ABILITIES_REDACT", "true")
    known = Settings.model_fields

    assert list_unknown_variables(known) == []

    monkeypatch.setenv("ABILITIES_PORT", "9000")
    monkeypatch.setenv("ABILITIES_REDCAT", "true")
    assert list_unknown_variables(known) == [
        ("ABILITIES_PORT", "port"),
        ("ABILITIES_REDCAT", "redcat"),
    ]


@pytest.mark.parametrize("field", ["workspace_dir", "agent_dir"])
async def test_a_root_that_is_too_large_or_not_there_is_named_and_not_opened(
    tmp_path: Path, field: str
) -> None:
    (tmp_path / "file").touch()
    whole = dict.fromkeys(("/", "~", "/usr/.."), f"{field} must not be")
    lost = {
        str(tmp_path / place): f"{field}: .*(does not exist|is not a directory)"
        for place in ("none", "file", "none/{namespace}")
    }

    for place, words in {**whole, **lost}.items():
        settings = Settings(**{field: place})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=words):
            async with Abilities.open(settings):
                pass
        with pytest.raises(ValueError, match=field):
            load_tools(settings)


async def test_a_namespace_without_directories_has_no_files_until_they_are_there(
    tmp_path: Path,
) -> None:
    for name in ("agents", "work"):
        (tmp_path / name).mkdir()
    settings = Settings(
        agent_dir=tmp_path / "agents" / "{namespace}",
        workspace_dir=tmp_path / "work" / "{namespace}" / "files",
        namespace="ada",
    )

    async def read(abilities: Abilities) -> Any:
        answer = await abilities.call("file_read_bulk", {"paths": ["a.txt"]})
        record: dict[str, Any] = answer["results"][0]
        return record["data"]["content"] if record["success"] else record["error"]["reason"]

    async with Abilities.open(settings) as abilities:
        assert await read(abilities) == "not_found"
        assert (await abilities.call("file_list"))["files"] == []

        place = tmp_path / "work" / "ada" / "files"
        place.mkdir(parents=True)
        (place / "a.txt").write_text("first")
        assert await read(abilities) == "first"

        place.rename(tmp_path / "away")
        assert await read(abilities) == "root_unavailable", "it was there, so this is a loss"
        assert await read(abilities.for_namespace("bob")) == "not_found"


async def test_a_layout_names_the_memory_files(roots: Settings) -> None:
    (roots.agent_dir / "memory.md").write_text("lasting")
    (roots.agent_dir / "memory-03022026.md").write_text("the third of February")
    (roots.agent_dir / "notes").mkdir()
    (roots.agent_dir / "notes" / "2026.02.03.txt").write_text("own name")
    targets = [{"type": "long_term"}, {"type": "short_term", "date": "2026-02-03"}]
    named = {"memory_layout": "clawpress", "short_term_file": "notes/%Y.%m.%d.txt"}

    for more, wanted in (
        ({"memory_layout": "clawpress"}, ["lasting", "the third of February"]),
        (named, ["lasting", "own name"]),
        ({}, [None, None]),
    ):
        async with Abilities.open(roots.model_copy(update=more)) as abilities:
            answer = await abilities.call("memory_read_bulk", {"targets": targets})
        assert [record.get("data", {}).get("content") for record in answer["results"]] == wanted
