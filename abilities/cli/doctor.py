"""The command that looks after a configuration.

What it says of files that agents may read and that look like secrets names paths and reasons, never
what a file holds.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterator

import click

from abilities.cli import checks, store_checks
from abilities.cli.checks import Diagnosis, State, check_folder
from abilities.cli.progress import show_progress
from abilities.cli.session import Session, pass_session
from abilities.cli.terminal import echo, echo_line, escape_text, format_count
from abilities.cli.token import check_tokens
from abilities.declarations.refusals import Refused
from abilities.declarations.values import has_control_character, has_surrogate
from abilities.helpers.files.redaction import find_secrets
from abilities.helpers.files.roots import Root
from abilities.helpers.files.secret_search import (
    DEFAULT_LIMITS,
    MAX_CHARS,
    ExposedFile,
    SearchLimits,
    SecretSearch,
)
from abilities.helpers.tokens import TokenFile
from abilities.settings import Settings

MAX_SHOWN = 100
"""Files that are shown; the others are only counted."""

_LIMITS = {
    "files": "enough files were looked at",
    "chars": "enough text was looked at",
    "time": "it took too long",
}


def check_secrets(settings: Settings, limits: SearchLimits = DEFAULT_LIMITS) -> Iterator[Diagnosis]:
    """Look through both roots, within limits, for what looks like a secret and may be read."""
    with show_progress("Looking for secrets") as progress:
        search = SecretSearch(settings.policy, find_kinds, progress.advance, limits)
        for place in settings.roots:
            folder = check_folder(place)
            if folder.state == "fails":
                yield folder
            else:
                _search_root(search, Root(place.name, place.path))

    # What contents show is surer than what a name hints at.
    found = sorted(search.found, key=lambda file: not file.kinds)
    for file in found[:MAX_SHOWN]:
        yield _diagnose_file(file, is_redacted=settings.policy.redacts)

    yield _summarize(search)


def find_kinds(text: str) -> Collection[str]:
    """Return the kinds of secrets that a text holds."""
    return sorted({secret.kind for secret in find_secrets(text)})


def _search_root(search: SecretSearch, root: Root) -> None:
    """Search a root; one that is gone or not readable has nothing to read."""
    try:
        descriptor = root.open()
    except Refused:
        return

    if descriptor is None:
        return

    try:
        search.search(root.name, descriptor)
    finally:
        os.close(descriptor)


def _diagnose_file(file: ExposedFile, *, is_redacted: bool) -> Diagnosis:
    pattern = _format_pattern(file.path)
    mend = f'if it is one, refuse it: deny = ["...", "{pattern}"]'
    about = f"{file.source} directory"
    path = escape_text(file.path)

    if file.kinds and is_redacted:
        words = f"{path} holds: {', '.join(file.kinds)}; agents read marks in their place"
        return Diagnosis("note", about, words, mend)

    if file.kinds:
        return Diagnosis("unsafe", about, f"{path} holds: {', '.join(file.kinds)}", mend)

    return Diagnosis("note", about, f"{path}: its name hints at a secret", mend)


def _summarize(search: SecretSearch) -> Diagnosis:
    """Say how much was looked at, what was found, and whether all was looked at."""
    words = (
        f"looked at {format_count(search.files, 'file')} that agents may read "
        f"({MAX_CHARS:,} characters of each at most): "
    )
    count = len(search.found)
    if count == 0:
        words += "none looks like a secret"
    elif count == 1:
        words += "1 looks like a secret"
    else:
        words += f"{count:,} look like secrets"

    if count > MAX_SHOWN:
        words += f", of which {MAX_SHOWN} are shown"

    if search.stopped_by is None:
        return Diagnosis("ok", "secrets", words)

    mend = "the rest was not looked at: name a smaller folder with --workspace-dir"
    return Diagnosis("note", "secrets", f"{words}; stopped, {_LIMITS[search.stopped_by]}", mend)


def _format_pattern(path: str) -> str:
    r"""Return a pattern of the deny list that stands for a path, as TOML has it in quotes.

    >>> _format_pattern('keys/a"b'), _format_pattern("!old"), _format_pattern("file:{a,b}")
    ('keys/a?b', '?old', 'file??a,b?')
    """
    pattern = ""
    for char in path:
        is_special = char in '"\\{}' or has_control_character(char) or has_surrogate(char)
        pattern += "?" if is_special else char

    if pattern.startswith("!"):
        pattern = "?" + pattern[1:]
    elif pattern.startswith("file:"):
        pattern = pattern.replace(":", "?", 1)

    return pattern


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
        diagnoses = list(check_secrets(session.settings))
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
        *await check_tokens(settings, remembered=store.remembers_tokens),
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
