"""What `abilities doctor` checks of the installation, settings, tokens and abilities."""

import os
import platform
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from abilities.application import build_registry
from abilities.cli.diagnosis import Diagnosis
from abilities.cli.file_checks import check_privacy, check_separation
from abilities.cli.text import format_count
from abilities.helpers.files.deny import DenyList
from abilities.helpers.tokens import Token, TokenFile
from abilities.settings import HOME, Settings

_EXTRAS = {"mcp": "mcp", "http": "fastapi", "postgres": "psycopg", "graph": "networkx"}
"""The extras of the package, each with a module that only it installs."""

# One name for every kind of secret that the default deny list covers.
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

    installed: list[str] = []
    missing: list[str] = []

    # A module can be found without importing it, which would take seconds.
    for extra, module in _EXTRAS.items():
        if find_spec(module):
            installed.append(extra)
        else:
            missing.append(extra)

    words = ", ".join(installed) or "none"
    mend = ""

    if missing:
        words += f"; not installed: {', '.join(missing)}"
        mend = f"if you need them: pip install 'agent-abilities[{','.join(missing)}]'"

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
    """Say where the settings come from, whether their file is private, and what time it is."""
    file = Path(os.environ.get("ABILITIES_CONFIG", HOME / "config.toml")).expanduser()
    words = str(file) if file.exists() else f"no settings file at {file}"
    variables = sorted(
        name for name in os.environ if name.startswith("ABILITIES_") and name != "ABILITIES_CONFIG"
    )

    if variables:
        words += f"; from the environment: {', '.join(variables)}"

    yield Diagnosis("ok", "settings", words)

    if file.exists():
        # A URL with a user may hold a password too.
        yield from check_privacy(file, "settings", secret="@" in settings.store_url)

    now = datetime.now(settings.zone).strftime("%Y-%m-%d %H:%M")
    zone = settings.timezone or "the system's time zone"
    yield Diagnosis("ok", "time", f"it is {now} in {zone}")


def check_deny_list(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the deny list covers the usual secrets."""
    deny = DenyList(settings.deny)
    uncovered = [name for name in _SECRETS if not deny.denies(name)]

    if uncovered:
        yield Diagnosis(
            "unsafe",
            "deny",
            f"the deny list does not cover {', '.join(uncovered)}",
            "add them to 'deny': a list of your own replaces the default one",
        )


def check_tokens(settings: Settings) -> Iterator[Diagnosis]:
    """Check that the tokens file works, is private, and lets 'abilities serve' start."""
    path = settings.tokens_file

    try:
        tokens = TokenFile(path).tokens()
    except ValueError as error:
        yield Diagnosis(
            "broken",
            "tokens",
            f"{path}: {error}; every caller is refused",
            "restore the file, or remove it and make new tokens: abilities token add",
        )
        return

    # Reading has shown that the file is sound or missing, and a missing one is no fault.
    if path.exists():
        yield from check_privacy(path, "tokens", secret=True)
        yield from check_separation(path, "tokens", settings)

    if tokens:
        yield from _check_namespaces(settings, tokens)
    else:
        yield from _check_without_tokens(settings)


def check_abilities(settings: Settings) -> Iterator[Diagnosis]:
    """Count the abilities that are offered, and report each plugin that did not load."""
    registry, problems = build_registry(settings)
    words = f"{len(registry)} are offered"

    if settings.disabled:
        words += f"; disabled: {', '.join(settings.disabled)}"

    yield Diagnosis("ok", "abilities", words)

    for problem in problems:
        # Only a note: the other abilities work without it.
        yield Diagnosis(
            "note",
            "plugins",
            problem,
            "update or remove that package, or set plugins = false",
        )


def _check_without_tokens(settings: Settings) -> Iterator[Diagnosis]:
    yield Diagnosis("ok", "tokens", "none: 'abilities serve' answers only this machine")

    if settings.allowed_hosts:
        names = ", ".join(settings.allowed_hosts)
        yield Diagnosis(
            "broken",
            "tokens",
            f"allowed_hosts ({names}) needs tokens, and there are none: "
            "'abilities serve' does not start",
            "make a token: abilities token add --scope read",
        )


def _check_namespaces(settings: Settings, tokens: Sequence[Token]) -> Iterator[Diagnosis]:
    namespaces = sorted({token.namespace for token in tokens})
    writing = sum(token.scope == "write" for token in tokens)
    count = format_count(len(tokens), "token")
    yield Diagnosis(
        "ok", "tokens", f"{count}, {writing} with write scope; namespaces: {', '.join(namespaces)}"
    )

    try:
        settings.check_namespaces(namespaces)
    except ValueError as error:
        yield Diagnosis(
            "broken",
            "tokens",
            str(error),
            "change these settings: until then 'abilities serve' does not start",
        )
