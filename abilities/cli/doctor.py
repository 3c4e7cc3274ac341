"""The command `doctor`: checks of the whole configuration, each with a remedy.

With --secrets it searches the files that agents may read for secrets. It prints their paths and the
kinds of secrets, never their contents.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import click

from abilities.cli import checks
from abilities.cli.checks import Diagnosis, State, check_folder
from abilities.cli.session import Session, define_command
from abilities.cli.terminal import echo, echo_line, escape_text, format_count, show_progress
from abilities.cli.token import check_tokens
from abilities.declarations.refusals import Refused
from abilities.declarations.values import has_control_character, has_surrogate
from abilities.helpers.files.reader import Root
from abilities.helpers.files.secret_search import (
    DEFAULT_LIMITS,
    MAX_CHARS,
    SearchLimits,
    SecretSearch,
)
from abilities.helpers.tokens import TokenFile
from abilities.settings import Settings

MAX_SHOWN = 100
"""The number of files that --secrets shows; the others are only counted."""

_LIMITS = {
    "files": "enough files were looked at",
    "chars": "enough text was looked at",
    "time": "it took too long",
}
"""Why a search for secrets stopped early."""

_INDENT = 29
"""Cells before the words of a finding."""

_COLORS: dict[State, str] = {"ok": "green", "note": "yellow", "unsafe": "red", "fails": "red"}


@define_command("abilities doctor", "abilities doctor --secrets")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
@click.option("--secrets", is_flag=True, help="List files that look like secrets, nothing else.")
@click.option("--download", is_flag=True, help="First download the embedder's model.")
def doctor(session: Session, as_json: bool, secrets: bool, download: bool) -> None:
    """Check the configuration, and say how to fix what is wrong.

    Looks at the settings, the directories, the store, the tokens, the abilities and the embedder,
    and changes nothing. Exits with 1 if anything fails or is unsafe.

    Each line begins with ok, note (worth knowing), unsafe, or fails. The last line counts them, and
    names the first step.

    With --secrets it searches the directories instead, for files that agents may read and whose
    contents or names look like secrets. It never prints their contents.

    With --download it first downloads the model that the setting embedder names. Nothing else
    downloads one.
    """
    if download:
        # Imported here, because few use it.
        from abilities.embedders import download_model

        try:
            download_model(session.settings.embedder or "")
        except ValueError as error:
            raise click.ClickException(str(error)) from None

    if secrets:
        diagnoses = list(check_secrets(session.settings))
    else:
        diagnoses = asyncio.run(diagnose(session.settings))

    if as_json:
        echo_line(json.dumps([diagnosis._asdict() for diagnosis in diagnoses]))
    else:
        for state, about, words, mend in diagnoses:
            mark = click.style(f"{state:<7}", fg=_COLORS[state])
            echo(f" {about:<20} {words}", head=mark, hang=_INDENT)
            if mend:
                remedy = click.style(escape_text(mend), dim=True)
                echo("", head=f"{' ' * _INDENT}{remedy}", hang=0)

        echo(summarize(diagnoses))

    if any(diagnosis.state in ("unsafe", "fails") for diagnosis in diagnoses):
        sys.exit(1)


async def diagnose(settings: Settings) -> list[Diagnosis]:
    """Return all findings, in the order in which people look. Changes nothing."""
    tokens = TokenFile(settings.tokens_file).load()
    store = await checks.check_store_answers(settings, tokens.namespaces)

    return [
        *checks.check_versions(),
        *checks.check_user(),
        *checks.check_settings(settings),
        *checks.check_deny_list(settings),
        *checks.check_folders(settings),
        *checks.check_store_setup(settings),
        *store.diagnoses,
        *check_tokens(settings, remembered=store.remembers_tokens),
        *checks.check_namespaces(settings, store.memories),
        *checks.check_abilities(settings),
        *await checks.check_embedder(settings, has_store=store.is_open),
    ]


def summarize(diagnoses: list[Diagnosis]) -> str:
    """Return the number of findings of each state, and the first step if one is due.

    >>> summarize([Diagnosis("ok", "time", ""), Diagnosis("unsafe", "store", "", "chmod 600 x")])
    '2 findings: 1 ok, 1 unsafe. Begin with store: chmod 600 x.'
    """
    counts = Counter(diagnosis.state for diagnosis in diagnoses)
    parts = [f"{counts[state]} {state}" for state in _COLORS if counts[state]]
    words = f"{format_count(len(diagnoses), 'finding')}: {', '.join(parts)}."

    # Failures come first, because they keep people from working.
    for state in ("fails", "unsafe"):
        for diagnosis in diagnoses:
            if diagnosis.state == state:
                return f"{words} Begin with {diagnosis.about}: {diagnosis.mend}."

    return f"{words} Nothing has to be done."


def check_secrets(settings: Settings, limits: SearchLimits = DEFAULT_LIMITS) -> Iterator[Diagnosis]:
    """Search both roots, within limits, for files that may be read and look like secrets."""
    with show_progress("Looking for secrets") as progress:
        search = SecretSearch(settings.policy, progress.advance, limits)
        for place in settings.roots:
            folder = check_folder(place)
            if folder.state == "fails":
                yield folder
                continue

            descriptor = None
            # A root that has just gone or become unreadable has no files to show.
            with suppress(Refused):
                descriptor = Root(place.name, place.path).open()
            if descriptor is None:
                continue

            try:
                search.search(place.name, descriptor)
            finally:
                os.close(descriptor)

    # Secrets in contents come first: they are surer than hints in names.
    found = sorted(search.found, key=lambda file: not file.kinds)
    for file in found[:MAX_SHOWN]:
        path = escape_text(file.path)
        state: State = "note"
        words = f"{path}: its name hints at a secret"
        if file.kinds:
            words = f"{path} holds: {', '.join(file.kinds)}"
            if settings.policy.redacts:
                words += "; agents read marks in their place"
            else:
                state = "unsafe"

        mend = f'if it is one, refuse it: deny = ["...", "{_format_pattern(file.path)}"]'
        yield Diagnosis(state, f"{file.source} directory", words, mend)

    count = len(found)
    words = (
        f"looked at {format_count(search.files, 'file')} that agents may read "
        f"({MAX_CHARS:,} characters of each at most): "
    )
    if count == 0:
        words += "none looks like a secret"
    else:
        words += format_count(count, "looks like a secret", "look like secrets")
    if count > MAX_SHOWN:
        words += f", of which {MAX_SHOWN} are shown"

    if search.stopped_by is None:
        yield Diagnosis("ok", "secrets", words)
    else:
        words += f"; stopped, {_LIMITS[search.stopped_by]}"
        mend = "the rest was not looked at: name a smaller folder with --workspace-dir"
        yield Diagnosis("note", "secrets", words, mend)


def _format_pattern(path: str) -> str:
    r"""Return a pattern of the deny list that matches a path, for a TOML string in quotes.

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
