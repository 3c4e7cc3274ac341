"""What `--help` and `list` print: every summary fits its line, every command has an example."""

import re

import click
import pytest
from click.testing import CliRunner

from abilities import Settings
from abilities.cli.main import main
from tests.support.catalog import list_commands
from tests.support.surfaces import environment

COMMANDS = dict(list_commands())
GROUPS = [[], ["token"]]


def show_help(*words: str) -> str:
    """Return what --help prints on a terminal of 80 columns."""
    done = CliRunner().invoke(
        main, [*words, "--help"], env={"COLUMNS": "80"}, prog_name="abilities"
    )
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_every_summary_fits_its_line(words: list[str]) -> None:
    printed = show_help(*words).partition("Commands:\n")[2]
    lines = [line for line in printed.splitlines() if re.match(r"  [a-z]", line)]

    assert len(lines) >= 3
    for line in lines:
        assert re.fullmatch(r"  [a-z-]+ +[A-Z].*\.", line) and not line.endswith("..."), line
        assert len(line) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_of_the_command(name: str) -> None:
    printed = show_help(*name.split())
    head, _, examples = printed.partition("\n  Example")

    assert re.search(rf"abilities (--\S+ \S+ )?{name}\b", examples) or name == "mcp", printed
    assert "Usage: abilities" in head and "..." not in head.partition("Options:")[2]
    # Examples stand as they are typed, and those of JSON take more room.
    assert all(len(line) <= 90 for line in printed.splitlines())


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_bare_command_shows_its_help(words: list[str]) -> None:
    done = CliRunner().invoke(main, words, env={"COLUMNS": "80"}, prog_name="abilities")

    assert done.output.rstrip("\n") == show_help(*words).rstrip("\n")


def test_every_option_is_explained() -> None:
    for name, command in COMMANDS.items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help and parameter.help.endswith((".", ")")), (name, parameter)
                assert parameter.help[0].isupper(), (name, parameter.help)


def test_the_list_of_abilities_says_one_thing_of_each_in_100_columns(settings: Settings) -> None:
    done = CliRunner().invoke(main, ["list"], env=environment(settings), prog_name="abilities")
    lines = done.stdout.splitlines()

    assert len(lines) == 17
    for line in lines:
        assert len(line) <= 100 and line.endswith("."), line
        assert not line.endswith(("..", ",.", ", .")), line

    (mixed,) = [line for line in lines if line.startswith("read ")]
    assert mixed.endswith(" Read files, notes and memories, search files and ask questions.")
