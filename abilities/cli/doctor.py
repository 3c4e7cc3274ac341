"""The command that looks after a configuration."""

import asyncio
import json
import sys
from collections import Counter

import click

from abilities.cli import (
    checks,
    secret_checks,
    store_checks,
    token_checks,
)
from abilities.cli.checks import Diagnosis, State
from abilities.cli.session import Session, pass_session
from abilities.cli.text import echo, echo_line, escape_text, format_count
from abilities.helpers.tokens import TokenFile
from abilities.settings import Settings

_INDENT = 29
"""Cells before the words of a finding."""

_COLORS: dict[State, str] = {"ok": "green", "note": "yellow", "unsafe": "red", "fails": "red"}

_EXAMPLES = """\b
Examples:
  abilities doctor
  abilities doctor --secrets
"""


@click.command(epilog=_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
@click.option("--secrets", is_flag=True, help="List files that look like secrets, nothing else.")
@pass_session
def doctor(session: Session, as_json: bool, secrets: bool) -> None:
    """Check the configuration, and say how to fix what is wrong.

    Looks at the settings, the directories, the store, the tokens and the abilities: what is in use,
    what fails and what is unsafe. Changes nothing. Exits with 1 if anything fails or is unsafe.

    Each line begins with ok, note (worth knowing), unsafe, or fails. The last one counts them, and
    names the first step.

    With --secrets it looks through the directories instead, for files that agents may read and
    whose contents or names look like secrets. It never prints what they hold.
    """
    if secrets:
        diagnoses = list(secret_checks.check_secrets(session.settings))
    else:
        diagnoses = asyncio.run(diagnose(session.settings))

    if as_json:
        echo_line(json.dumps([diagnosis._asdict() for diagnosis in diagnoses]))
    else:
        for diagnosis in diagnoses:
            _print_diagnosis(diagnosis)
        echo(summarize(diagnoses))

    if any(diagnosis.state in ("unsafe", "fails") for diagnosis in diagnoses):
        sys.exit(1)


async def diagnose(settings: Settings) -> list[Diagnosis]:
    """Return all that is worth saying, in the order in which people look. Changes nothing."""
    tokens = TokenFile(settings.tokens_file).load()
    store = await store_checks.check_store_answers(settings, tokens.namespaces)

    return [
        *checks.check_versions(),
        *checks.check_user(),
        *checks.check_settings(settings),
        *checks.check_deny_list(settings),
        *checks.check_folders(settings),
        *store_checks.check_store_setup(settings),
        *store.diagnoses,
        *await token_checks.check_tokens(settings, remembered=store.remembers_tokens),
        *checks.check_namespaces(settings, store.memories),
        *checks.check_abilities(settings),
        *await checks.check_embedder(settings),
    ]


def summarize(diagnoses: list[Diagnosis]) -> str:
    """Return how many findings there are of each state, and the first step if one is due.

    >>> summarize([Diagnosis("ok", "time", ""), Diagnosis("unsafe", "store", "", "chmod 600 x")])
    '2 findings: 1 ok, 1 unsafe. Begin with store: chmod 600 x.'
    """
    counts = Counter(diagnosis.state for diagnosis in diagnoses)
    parts = [f"{counts[state]} {state}" for state in _COLORS if counts[state]]
    words = f"{format_count(len(diagnoses), 'finding')}: {', '.join(parts)}."

    # What fails keeps people from working; what is unsafe does not.
    due = [diagnosis for diagnosis in diagnoses if diagnosis.state in ("fails", "unsafe")]
    if not due:
        return f"{words} Nothing has to be done."

    first = min(due, key=lambda diagnosis: diagnosis.state != "fails")
    return f"{words} Begin with {first.about}: {first.mend}."


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    state = click.style(f"{diagnosis.state:<7}", fg=_COLORS[diagnosis.state])
    echo(f" {diagnosis.about:<20} {diagnosis.words}", head=state, hang=_INDENT)

    if diagnosis.mend:
        mend = click.style(escape_text(diagnosis.mend), dim=True)
        echo("", head=f"{' ' * _INDENT}{mend}", hang=0)
