"""The command that looks after a configuration."""

import asyncio
import json
import sys

import click

from abilities.cli import file_checks, settings_checks, store_checks
from abilities.cli.diagnosis import Diagnosis
from abilities.cli.session import Session, pass_session
from abilities.settings import Settings

_COLORS = {"ok": "green", "note": "yellow", "unsafe": "red", "broken": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
@pass_session
def doctor(session: Session, as_json: bool) -> None:
    """Check the configuration, and say how to fix what is wrong.

    Looks at the settings, the directories, the store, the tokens and the abilities: what is in use,
    what does not work and what is unsafe. Changes nothing. Exits with 1 if anything is unsafe or
    broken.
    """
    diagnoses = asyncio.run(diagnose(session.settings))

    if as_json:
        click.echo(json.dumps([diagnosis._asdict() for diagnosis in diagnoses]))
    else:
        for diagnosis in diagnoses:
            _print_diagnosis(diagnosis)

    if any(diagnosis.state in ("unsafe", "broken") for diagnosis in diagnoses):
        sys.exit(1)


async def diagnose(settings: Settings) -> list[Diagnosis]:
    """Return all that is worth saying, in the order in which people look. Changes nothing."""
    return [
        *settings_checks.check_versions(),
        *settings_checks.check_user(),
        *settings_checks.check_settings(settings),
        *settings_checks.check_deny_list(settings),
        *file_checks.check_folders(settings),
        *store_checks.check_store_setup(settings),
        *await store_checks.check_store_answers(settings),
        *settings_checks.check_tokens(settings),
        *settings_checks.check_abilities(settings),
    ]


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    state = click.style(f"{diagnosis.state:<7}", fg=_COLORS[diagnosis.state])
    click.echo(f"{state} {diagnosis.about:<20} {diagnosis.words}")

    if diagnosis.mend:
        indent = " " * 28
        click.echo(f"{indent} {click.style(diagnosis.mend, dim=True)}")
