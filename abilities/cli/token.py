"""The tokens of `abilities serve`: the commands that manage them, and who needs one.

`abilities doctor` and the server ask here too, so all of them give the same reason.
"""

import asyncio
import json
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from abilities.application import build_registry, use_store
from abilities.builtin.index import explain_unknown_tools
from abilities.cli.checks import Diagnosis, check_privacy, check_separation, has_token_mark
from abilities.cli.completion import complete_tools
from abilities.cli.errors import Commands, describe_os_error
from abilities.cli.options import take_namespace
from abilities.cli.session import Session, define_command
from abilities.cli.terminal import divert_stdout, echo, echo_line, escape_text, format_count
from abilities.declarations.memory import MAX_OTHERS, parse_namespace
from abilities.declarations.refusals import Refused
from abilities.helpers.grants import GrantFile
from abilities.helpers.tokens import MAX_LABEL_CHARS, Scope, TokenFile, TokenSet
from abilities.settings import Settings, split_names

WAY_OUT = (
    "make a token: abilities token add --scope read; "
    "or set require_tokens = false, which opens a server to all on this machine"
)
"""The remedy if a server refuses every caller."""

_HEADINGS = ("ID", "scope", "made", "namespace", "label", "tools", "reads")


class Lock(NamedTuple):
    """Whether callers on this machine need a token, and the reason, such as "there are tokens"."""

    is_locked: bool
    reason: str


def find_lock(settings: Settings, tokens: TokenSet) -> Lock | None:
    """Return whether callers on this machine need a token; None if the store decides that."""
    if settings.require_tokens is not None:
        value = str(settings.require_tokens).lower()
        return Lock(settings.require_tokens, f"require_tokens is set to {value}")
    if tokens.problem:
        return Lock(True, tokens.problem)
    if settings.oauth:
        return Lock(True, "oauth is set")
    if tokens.by_id:
        return Lock(True, "there are tokens")
    if tokens.exists:
        return Lock(True, "the tokens file is there, but no token is left in it")

    return None


def lock_by_mark(remembered: bool | None) -> Lock:
    """Return whether callers need a token if the store decides that.

    ``remembered`` is whether it remembers that there were tokens, None if it does not answer.
    """
    if remembered is None:
        return Lock(True, "the store does not answer, and may remember that there were tokens")
    if remembered:
        return Lock(True, "the tokens file is gone, and the store remembers that there were tokens")

    return Lock(False, "there never was a token")


def check_tokens(settings: Settings, *, remembered: bool | None) -> Iterator[Diagnosis]:
    """Check that the tokens file works and is private, and say who may call 'abilities serve'.

    ``remembered`` is whether the store remembers tokens, None if it does not answer.
    """
    tokens = TokenFile(settings.tokens_file).load()
    yield from _check_file(settings, tokens)
    lock = find_lock(settings, tokens) or lock_by_mark(remembered)

    if not lock.is_locked:
        words = f"none is needed: {lock.reason}, so 'abilities serve' answers only this machine"
        if tokens.exists:
            mend = "to require tokens again, remove require_tokens from the settings"
            yield Diagnosis("note", "tokens", words, mend)
        else:
            yield Diagnosis("ok", "tokens", words)
    elif not tokens.by_id:
        words = f"'abilities serve' refuses every caller: {lock.reason}"
        yield Diagnosis("note", "tokens", words, WAY_OUT)


def _check_file(settings: Settings, tokens: TokenSet) -> Iterator[Diagnosis]:
    """Check the tokens file, and count its tokens."""
    path = settings.tokens_file

    if tokens.problem:
        words = f"{path}: {tokens.problem}; every token is refused"
        mend = "restore the file, or remove it and make new tokens: abilities token add"
        yield Diagnosis("fails", "tokens", words, mend)
    elif tokens.exists:
        yield from check_privacy(path, "tokens", secret=True)
        clients_file = GrantFile(path).path
        if clients_file.exists():
            yield from check_privacy(clients_file, "tokens", secret=True)
        yield from check_separation(path, "tokens", settings)

    if not tokens.by_id:
        if settings.host_names:
            names = ", ".join(settings.host_names)
            words = (
                f"a server for {names} needs tokens, and there are none: "
                "'abilities serve' does not start"
            )
            mend = "make a token: abilities token add --scope read"
            yield Diagnosis("fails", "tokens", words, mend)
        return

    scopes = [token.scope for token in tokens.by_id.values()]
    words = f"{format_count(len(scopes), 'token')}, {scopes.count('write')} with write scope"
    if "metrics" in scopes:
        words += f", {scopes.count('metrics')} for metrics alone"
    if tokens.namespaces:
        words += f"; namespaces: {', '.join(sorted(tokens.namespaces))}"
    yield Diagnosis("ok", "tokens", words)

    try:
        settings.check_namespaces(tokens.namespaces)
    except ValueError as error:
        mend = "change these settings: until then 'abilities serve' does not start"
        yield Diagnosis("fails", "tokens", str(error), mend)


@click.group(cls=Commands)
def token() -> None:
    """Make, list and revoke the tokens of 'abilities serve'.

    From the first token on, every caller of the server needs one, even after the last one was
    revoked. A running server notices changes within a second.
    """


@define_command(
    "abilities token add --namespace team --scope read --label 'laptop of Ada'",
    "abilities token add --namespace ada --scope write --reads project,team",
    "abilities token add --scope metrics --label prometheus > metrics.token",
    group=token,
)
@take_namespace(
    "The namespace whose memories and files the token opens (default: the configured one)."
)
@click.option(
    "--scope",
    type=click.Choice(["read", "write", "purge", "metrics"]),
    required=True,
    help="What the token allows: 'write' includes reading; 'purge' also deletes memories for good; "
    "'metrics' is only for GET /metrics.",
)
@click.option(
    "--label",
    default="",
    help=f"Who gets the token, for example 'laptop of Ada' (at most {MAX_LABEL_CHARS} characters).",
)
@click.option(
    "--tools",
    metavar="NAMES",
    default="",
    shell_complete=complete_tools,
    help="The abilities that it opens: lean, files, memory, or names separated by commas "
    "(default: all).",
)
@click.option(
    "--reads",
    metavar="NAMES",
    default="",
    help="Further namespaces whose memories it only reads, at most 3, separated by commas.",
)
def add(session: Session, scope: Scope, label: str, tools: str, reads: str) -> None:
    """Make a token and print it on stdout.

    It is printed only this once: the tokens file keeps nothing but its hash.
    """
    if len(label) > MAX_LABEL_CHARS:
        raise click.BadParameter(f"at most {MAX_LABEL_CHARS} characters", param_hint="--label")
    if escape_text(label) != label:
        raise click.BadParameter("must not hold control characters", param_hint="--label")
    if session.given_namespace is not None and scope == "metrics":
        raise click.UsageError("a token for metrics opens no namespace; leave out --namespace")
    names = split_names(tools)
    _check_tools(session, names, scope)
    others = _parse_reads(reads, scope)

    settings = session.settings
    file = TokenFile(settings.tokens_file)

    with _explain_failure(file):
        # Refuse a token that would keep the server from starting.
        namespaces = TokenSet({token.id: token for token in file.tokens()}).namespaces
        if scope != "metrics":
            namespaces.add(settings.namespace)
        settings.check_namespaces(namespaces)

        created, text = file.add(settings.namespace, scope, label, names, others)

    # Only the token goes to stdout, so it can be piped into a file or a secret store.
    if scope == "metrics":
        rights = "read the metrics of all namespaces, and nothing else"
    else:
        rights = "write and purge" if scope == "purge" else scope
        rights += f" in namespace {created.namespace}"
        if created.reads:
            rights += f", read the memories of {', '.join(created.reads)}"
        if created.tools:
            rights += f" with the tools {', '.join(created.tools)}"
    echo(f"Token {created.id} may {rights}. Save it now, it is not shown again:", err=True)
    echo_line(text)
    _set_token_mark(settings)

    if scope == "metrics":
        return

    for root in settings.roots:
        # Only a directory that the settings name is expected to exist.
        if root.required is not None and not root.path.is_dir():
            words = f"Its {root.name} directory {root.path} does not exist yet"
            echo(f"{words}; create it to share files.", err=True)


@define_command("abilities token list --json", group=token)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
def list_(session: Session, as_json: bool) -> None:
    """List the tokens and the OAuth clients.

    A client is listed with the rights that a token gave it. Secrets are not stored. The last
    columns name the abilities that a token opens, if not all, and the further namespaces.
    """
    file = TokenFile(session.settings.tokens_file)
    with _explain_failure(file):
        tokens = [*file.tokens(), *GrantFile(file.path).list_grants()]

    if as_json:
        echo_line(json.dumps([token.model_dump(exclude={"sha256"}) for token in tokens]))
        return

    if not tokens:
        _print_lock(session.settings, "There are no tokens.")
        return

    rows: list[tuple[str, ...]] = [_HEADINGS]
    for token in tokens:
        namespace = "(all)" if token.scope == "metrics" else token.namespace
        beginning = (token.id, token.scope, token.created_at, namespace)
        rows.append((*beginning, token.plain_label, ",".join(token.tools), ",".join(token.reads)))

    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        echo("  ".join(cells).rstrip())


@define_command("abilities token revoke 3f9c2a1b", group=token)
@click.argument("token_id", metavar="ID")
def revoke(session: Session, token_id: str) -> None:
    """Revoke a token or an OAuth client.

    Running servers refuse it within a second. The clients that a token gave access lose it with the
    token. 'abilities token list' shows the IDs. Exits with 1 if there is no such token.
    """
    file = TokenFile(session.settings.tokens_file)
    with _explain_failure(file):
        revoked = file.revoke(token_id) or GrantFile(file.path).revoke(token_id)

    if revoked is None:
        words = f"There is no token with the ID {token_id!r}; 'abilities token list' shows the IDs."
        echo(words, err=True)
        sys.exit(1)

    echo(f"Revoked {revoked.id}.", err=True)

    if not file.load().by_id:
        _print_lock(session.settings, "That was the last token.")


@contextmanager
def _explain_failure(file: TokenFile) -> Generator[None]:
    """Turn errors of the tokens file into click.UsageError."""
    try:
        yield
    except OSError as error:
        raise click.UsageError(
            f"{error.filename or file.path}: {describe_os_error(error)}; "
            "set tokens_file to a place where this user may write"
        ) from None
    except ValueError as error:
        words = str(error)
        if file.load().problem:
            words = (
                f"{file.path}: {error}; let this user read it, restore it, or remove it and make "
                "new tokens"
            )
        raise click.UsageError(words) from None


def _check_tools(session: Session, tools: tuple[str, ...], scope: Scope) -> None:
    """Raise click.BadParameter for tools that a token cannot have."""
    if not tools:
        return
    if scope == "metrics":
        raise click.BadParameter("a token for metrics has no tools", param_hint="--tools")

    with divert_stdout():
        registry, _ = build_registry(session.settings)
    mistake = explain_unknown_tools(tools, registry.names)
    if mistake is not None:
        raise click.BadParameter(mistake, param_hint="--tools")


def _parse_reads(text: str, scope: Scope) -> tuple[str, ...]:
    """Return the namespaces in a text. Raises click.BadParameter if a token cannot read them."""
    names = split_names(text)
    if names and scope == "metrics":
        raise click.BadParameter("a token for metrics reads no namespace", param_hint="--reads")
    if len(names) > MAX_OTHERS:
        raise click.BadParameter(f"at most {MAX_OTHERS} names", param_hint="--reads")

    try:
        return tuple(map(parse_namespace, names))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--reads") from None


def _set_token_mark(settings: Settings) -> None:
    """Record in the store that there are tokens, without waiting for a long migration."""
    if settings.require_tokens is False:
        echo("require_tokens is set to false: callers on this machine need no token.", err=True)

    async def set_mark() -> None:
        async with use_store(settings) as store:
            await store.set_mark("tokens")

    try:
        asyncio.run(set_mark())
    except (Refused, ValueError):  # ValueError if the driver of its database is not installed
        echo(
            "The store does not answer, so it does not remember yet that there are tokens. "
            "'abilities serve' will record it.",
            err=True,
        )


def _print_lock(settings: Settings, cause: str) -> None:
    """Print after its cause who may call a server that has no tokens."""
    tokens = TokenFile(settings.tokens_file).load()
    lock = find_lock(settings, tokens)
    if lock is None:
        lock = lock_by_mark(asyncio.run(has_token_mark(settings)))

    if lock.is_locked:
        echo(f"{cause} 'abilities serve' refuses every caller: {lock.reason}.", err=True)
        echo(f"To go on, {WAY_OUT}.", err=True)
    else:
        words = "'abilities serve' answers only this machine, without asking for a token"
        echo(f"{cause} {words}: {lock.reason}.", err=True)
