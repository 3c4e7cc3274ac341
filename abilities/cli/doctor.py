"""The command that looks after a configuration."""

import asyncio
import json
import sys

import click

from abilities.cli import (
    embedder_checks,
    file_checks,
    secret_checks,
    settings_checks,
    store_checks,
    token_checks,
)
from abilities.cli.diagnosis import Diagnosis
from abilities.cli.options import take_namespace
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo, escape_text
from abilities.settings import Settings

_COLORS = {"ok": "green", "note": "yellow", "unsafe": "red", "broken": "red"}

_EXAMPLES = """\b
Examples:
  abilities doctor
  abilities doctor --secrets
"""


@click.command(epilog=_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
@click.option("--secrets", is_flag=True, help="List files that look like secrets, nothing else.")
@take_namespace()
@pass_session
def doctor(session: Session, as_json: bool, secrets: bool) -> None:
    """Check the configuration, and say how to fix what is wrong.

    Looks at the settings, the directories, the store, the tokens and the abilities: what is in use,
    what does not work and what is unsafe. Changes nothing. Exits with 1 if anything is unsafe or
    broken.

    With --secrets it looks through the directories instead, for files that agents may read and
    whose contents or names look like secrets. It never prints what they hold.
    """
    if secrets:
        diagnoses = list(secret_checks.check_secrets(session.settings))
    else:
        diagnoses = asyncio.run(diagnose(session.settings))

    if as_json:
        echo(json.dumps([diagnosis._asdict() for diagnosis in diagnoses]))
    else:
        for diagnosis in diagnoses:
            _print_diagnosis(diagnosis)

    if any(diagnosis.state in ("unsafe", "broken") for diagnosis in diagnoses):
        sys.exit(1)


async def diagnose(settings: Settings) -> list[Diagnosis]:
    """Return all that is worth saying, in the order in which people look. Changes nothing."""
    store = await store_checks.check_store_answers(settings)

    return [
        *settings_checks.check_versions(),
        *settings_checks.check_user(),
        *settings_checks.check_settings(settings),
        *settings_checks.check_deny_list(settings),
        *file_checks.check_folders(settings),
        *store_checks.check_store_setup(settings),
        *store.diagnoses,
        *await token_checks.check_tokens(settings, remembered=store.remembers_tokens),
        *settings_checks.check_abilities(settings),
        *await embedder_checks.check_embedder(settings),
    ]


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    state = click.style(f"{diagnosis.state:<7}", fg=_COLORS[diagnosis.state])
    echo(f" {diagnosis.about:<20} {diagnosis.words}", head=state)

    if diagnosis.mend:
        indent = " " * 28
        echo("", head=f"{indent} {click.style(escape_text(diagnosis.mend), dim=True)}")
