"""What `abilities doctor` checks of the installation, settings and abilities."""

import os
import platform
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version

from abilities.builtin.profiles import (
    ALL,
    explain_unknown_names,
    explain_unknown_tools,
    select_names,
)
from abilities.cli.diagnosis import Diagnosis
from abilities.cli.file_checks import check_privacy
from abilities.cli.stdout import divert_stdout
from abilities.extras import EXTRAS, USES, Extra, format_install, is_installed
from abilities.helpers.files.deny import DenyList
from abilities.helpers.files.secret_names import list_denied
from abilities.helpers.tokens import TokenFile
from abilities.offer import build_registry
from abilities.origins import find_origin, find_settings_file, list_unknown_variables
from abilities.setting_errors import explain_unknown
from abilities.settings import Settings

# The names that no deny list should lack.
_SECRETS = (
    ".env", "server.pem", "a.key", "a.p12", "id_rsa", "id_ed25519",
    ".netrc", ".npmrc", ".pypirc", ".pgpass",
    ".ssh/config", ".git/config", ".aws/credentials", ".kube/config", ".gnupg/x",
    ".docker/config.json",
)  # fmt: skip


def check_versions() -> Iterator[Diagnosis]:
    """Name the versions of the package and of Python, and the extras that are installed."""
    package = version("agent-abilities")
    yield Diagnosis(
        "ok", "version", f"agent-abilities {package} on Python {platform.python_version()}"
    )

    installed = [extra for extra in EXTRAS if is_installed(extra)]
    missing: list[Extra] = [extra for extra in EXTRAS if extra not in installed]
    words = ", ".join(installed) or "none"
    mend = ""

    if missing:
        uses = ", ".join(f"{extra} ({USES[extra]})" for extra in missing)
        words += f"; not installed: {uses}"
        mend = f"if you need them: {format_install(*missing)}"

    yield Diagnosis("ok", "extras", words, mend)


def check_user() -> Iterator[Diagnosis]:
    """Note that root reads every file."""
    if os.geteuid() == 0:
        yield Diagnosis(
            "note",
            "user",
            "this is root, which ignores file permissions",
            "run abilities as an ordinary user",
        )


def check_settings(settings: Settings) -> Iterator[Diagnosis]:
    """Say which settings come from where, whether their file is private, and what time it is."""
    file = find_settings_file()
    words = str(file) if file.exists() else f"no settings file at {file}"
    places: list[str] = []

    for name in Settings.model_fields:
        place = find_origin(name)
        if place is not None:
            places.append(f"{name} ({place})")

    if places:
        words += f"; set are {', '.join(places)}"

    yield Diagnosis("ok", "settings", words)
    yield from _check_variables()

    if file.exists():
        # A URL with a user may hold a password too.
        yield from check_privacy(file, "settings", secret="@" in settings.store_url)

    now = datetime.now(settings.zone).strftime("%Y-%m-%d %H:%M")
    zone = settings.timezone or "the system's time zone"
    yield Diagnosis("ok", "time", f"it is {now} in {zone}")


def _check_variables() -> Iterator[Diagnosis]:
    """Name the variables that look like settings and are none."""
    known = Settings.model_fields.keys()

    for variable, name in list_unknown_variables(known):
        yield Diagnosis(
            "note",
            "settings",
            f"{variable} is ignored: {name} {explain_unknown(name, known)}",
            f"correct its name, or: unset {variable}",
        )


def check_deny_list(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the deny list covers the usual secrets."""
    deny = DenyList(settings.deny)
    uncovered = [name for name in _SECRETS if not deny.denies(name)]

    if uncovered:
        yield Diagnosis(
            "unsafe",
            "deny",
            f"the deny list does not cover {', '.join(uncovered)}",
            "put '...' into 'deny', which stands for the default list",
        )
        return

    missing = set(list_denied()).difference(settings.deny)

    if missing:
        yield Diagnosis(
            "note",
            "deny",
            f"the deny list lacks {len(missing)} of the {len(list_denied())} default entries",
            "put '...' into 'deny', which stands for the default list",
        )


def check_abilities(settings: Settings) -> Iterator[Diagnosis]:
    """Count the abilities that are offered, and report each plugin that did not load."""
    # Built once with all of them: plugins are discovered only once.
    with divert_stdout():
        registry, problems = build_registry(settings)
    names = registry.names
    offered = select_names(settings.tools, names).difference(settings.disabled)
    words = f"{len(offered)} are offered"

    if settings.tools != (ALL,):
        words += f"; tools: {', '.join(settings.tools)}"
    if settings.disabled:
        words += f"; disabled: {', '.join(settings.disabled)}"

    yield Diagnosis("ok", "abilities", words)

    # Somebody believes that these are off.
    for sentence in explain_unknown_names(settings.disabled, names):
        yield Diagnosis(
            "unsafe",
            "abilities",
            sentence,
            "correct the name; in the environment names have commas between them",
        )

    mistake = explain_unknown_tools(settings.tools, names)
    if mistake is not None:
        yield Diagnosis("fails", "abilities", f"tools: {mistake}", "correct the names")

    # What a plugin offered that is gone now; its holder has the rest.
    for token in TokenFile(settings.tokens_file).load().by_id.values():
        mistake = explain_unknown_tools(token.tools, names)
        if mistake is not None:
            words = f"tools of token {token.id}: {mistake}"
            yield Diagnosis("note", "tokens", words, "revoke it, and make another")

    for problem in problems:
        # Only a note: the other abilities work without it.
        yield Diagnosis(
            "note",
            "plugins",
            problem,
            "update or remove that package, or set plugins = false",
        )
