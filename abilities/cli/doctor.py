"""The command that looks after a configuration."""

import asyncio
import json
import sys
from typing import Any

import click

from abilities.cli.diagnosis import Diagnosis, diagnose
from abilities.cli.options import load_settings

_COLOURS = {"ok": "green", "note": "yellow", "unsafe": "red", "broken": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print an array.")
@click.pass_obj
def doctor(given: dict[str, Any], as_json: bool) -> None:
    """Say what is configured, what answers, what is unsafe, and how to mend it.

    Changes nothing. Exits with 1 when something is unsafe or broken.
    """
    findings = asyncio.run(diagnose(load_settings(given)))
    if as_json:
        click.echo(json.dumps([finding._asdict() for finding in findings]))
    else:
        for finding in findings:
            _say(finding)
    if any(finding.state in ("unsafe", "broken") for finding in findings):
        sys.exit(1)


def _say(finding: Diagnosis) -> None:
    click.echo(
        f"{click.style(f'{finding.state:<7}', fg=_COLOURS[finding.state])} {finding.about:<20} {finding.words}"
    )
    if finding.mend:
        click.echo(f"{'':<28} {click.style(finding.mend, dim=True)}")
