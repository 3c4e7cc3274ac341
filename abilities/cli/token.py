"""The commands that look after a server's tokens.

What `abilities doctor` checks of tokens: their file, and whether callers need one and why.
"""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import NamedTuple

import click

from abilities.application import build_registry
from abilities.builtin.index import explain_unknown_tools
from abilities.cli.checks import Diagnosis, check_privacy, check_separation
from abilities.cli.completion import complete_tools
from abilities.cli.errors import Commands, describe_os_error
from abilities.cli.options import take_namespace
from abilities.cli.session import Session, pass_session
from abilities.cli.store_checks import has_token_mark
from abilities.cli.terminal import divert_stdout, echo, echo_line, escape_text, format_count
from abilities.declarations.refusals import Refused
from abilities.helpers.tokens import Scope, Token, TokenFile, TokenSet
from abilities.settings import Settings, split_names

WAY_OUT = (
    "make a token: abilities token add --scope read; "
    "or set require_tokens = false, which opens a server to all on this machine"
)
"""What to do about a server that refuses everybody."""


class Lock(NamedTuple):
    """Whether callers on this machine need a token, and the reason as part of a sentence."""

    is_locked: bool
    reason: str


async def find_lock(
    settings: Settings, tokens: TokenSet, recall: Callable[[], Awaitable[bool | None]]
) -> Lock:
    """Return what holds for callers on this machine.

    ``recall`` returns whether the store remembers tokens, None if it does not answer. It is asked
    only if that matters.
    """
    if settings.require_tokens is not None:
        value = str(settings.require_tokens).lower()
        return Lock(settings.require_tokens, f"require_tokens is set to {value}")
    if tokens.problem:
        return Lock(True, tokens.problem)
    if tokens.by_id:
        return Lock(True, "there are tokens")
    if tokens.exists:
        return Lock(True, "the tokens file is there, but no token is left in it")

    remembered = await recall()
    if remembered is None:
        return Lock(True, "the store does not answer, and may remember that there were tokens")
    if remembered:
        return Lock(True, "the tokens file is gone, and the store remembers that there were tokens")

    return Lock(False, "there never was a token")


async def check_tokens(settings: Settings, *, remembered: bool | None) -> list[Diagnosis]:
    """Check that the tokens file works and is private, and say who may call 'abilities serve'.

    ``remembered`` is whether the store remembers tokens, None if it does not say.
    """

    async def recall() -> bool | None:
        return remembered

    tokens = TokenFile(settings.tokens_file).load()
    lock = await find_lock(settings, tokens, recall)

    return [*_check_file(settings, tokens), *_explain_lock(tokens, lock)]


def _check_file(settings: Settings, tokens: TokenSet) -> Iterator[Diagnosis]:
    path = settings.tokens_file

    if tokens.problem:
        yield Diagnosis(
            "fails",
            "tokens",
            f"{path}: {tokens.problem}; every token is refused",
            "restore the file, or remove it and make new tokens: abilities token add",
        )
    elif tokens.exists:
        yield from check_privacy(path, "tokens", secret=True)
        yield from check_separation(path, "tokens", settings)

    if tokens.by_id:
        yield from _diagnose_namespaces(settings, tokens)
    elif settings.allowed_hosts:
        names = ", ".join(settings.allowed_hosts)
        yield Diagnosis(
            "fails",
            "tokens",
            f"allowed_hosts ({names}) needs tokens, and there are none: "
            "'abilities serve' does not start",
            "make a token: abilities token add --scope read",
        )


def _diagnose_namespaces(settings: Settings, tokens: TokenSet) -> Iterator[Diagnosis]:
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
        yield Diagnosis(
            "fails",
            "tokens",
            str(error),
            "change these settings: until then 'abilities serve' does not start",
        )


def _explain_lock(tokens: TokenSet, lock: Lock) -> Iterator[Diagnosis]:
    """Say who may call a server on this machine, unless its tokens say that already."""
    if not lock.is_locked:
        words = f"none is needed: {lock.reason}, so 'abilities serve' answers only this machine"
        mend = ""

        if tokens.exists:
            mend = "to require tokens again, remove require_tokens from the settings"

        yield Diagnosis("note" if tokens.exists else "ok", "tokens", words, mend)
    elif not tokens.by_id:
        words = f"'abilities serve' refuses every caller: {lock.reason}"
        yield Diagnosis("note", "tokens", words, WAY_OUT)


MAX_LABEL_CHARS = 100

_HEADINGS = ("ID", "scope", "made", "namespace", "label", "tools")

_ADD_EXAMPLES = """\b
Examples:
  abilities token add --namespace team --scope read --label 'laptop of Ada'
  abilities token add --scope metrics --label prometheus > metrics.token
"""

_LIST_EXAMPLE = """\b
Example:
  abilities token list --json
"""

_REVOKE_EXAMPLE = """\b
Example:
  abilities token revoke 3f9c2a1b
"""


@click.group(cls=Commands)
def token() -> None:
    """Make, list and revoke the tokens of 'abilities serve'.

    Once there was a token, every caller of the server needs one, also after the last one was
    revoked. A running server notices changes within a second.
    """


@token.command(epilog=_ADD_EXAMPLES)
@take_namespace(
    "The namespace whose memories and files the token opens (default: the configured one)."
)
@click.option(
    "--scope",
    type=click.Choice(["read", "write", "purge", "metrics"]),
    required=True,
    help="What the token allows: 'write' includes reading; 'purge' also forgets memories for good; "
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
    help="Which of the server's abilities are offered: lean, files, memory, or names with commas "
    "between them (default: all).",
)
@pass_session
def add(session: Session, scope: Scope, label: str, tools: str) -> None:
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

    settings = session.settings
    file = TokenFile(settings.tokens_file)

    try:
        _check_namespaces(settings, file, scope)
        created, text = file.add(settings.namespace, scope, label, names)
    except (ValueError, OSError) as error:
        raise _explain_failure(error, file) from None

    # The token alone is on stdout, so that it can be piped into a file or a secret store.
    echo(
        f"Token {created.id} {_describe_scope(created)}. Save it now, it is not shown again:",
        err=True,
    )
    echo_line(text)
    _set_token_mark(session)

    if scope == "metrics":
        return

    for root in settings.roots:
        # A default directory need not exist, and nobody asked for it.
        if root.required is not None and not root.path.is_dir():
            echo(
                f"Its {root.name} directory {root.path} does not exist yet; "
                "create it to share files.",
                err=True,
            )


@token.command("list", epilog=_LIST_EXAMPLE)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
@pass_session
def list_(session: Session, as_json: bool) -> None:
    """List the tokens by ID. Their secrets are not stored.

    The tools are those that a token's holder is offered, if not all of them.
    """
    file = TokenFile(session.settings.tokens_file)

    try:
        tokens = file.tokens()
    except ValueError as error:
        raise _explain_failure(error, file) from None

    if as_json:
        echo_line(json.dumps([token.model_dump(exclude={"sha256"}) for token in tokens]))
        return

    if not tokens:
        _print_lock(session, "There are no tokens.")
        return

    rows = [_HEADINGS, *(_list_columns(token) for token in tokens)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        echo("  ".join(cells).rstrip())


def _list_columns(token: Token) -> tuple[str, ...]:
    namespace = "(all)" if token.scope == "metrics" else token.namespace
    tools = ",".join(token.tools)
    return token.id, token.scope, token.created_at, namespace, token.plain_label, tools


@token.command(epilog=_REVOKE_EXAMPLE)
@click.argument("token_id", metavar="ID")
@pass_session
def revoke(session: Session, token_id: str) -> None:
    """Revoke a token by its ID. Running servers refuse it within a second.

    'abilities token list' shows the IDs. Exits with 1 if there is no such token.
    """
    file = TokenFile(session.settings.tokens_file)

    try:
        revoked = file.revoke(token_id)
    except (ValueError, OSError) as error:
        raise _explain_failure(error, file) from None

    if revoked is None:
        words = f"There is no token with the ID {token_id!r}; 'abilities token list' shows the IDs."
        echo(words, err=True)
        sys.exit(1)

    echo(f"Revoked {revoked.id}.", err=True)

    if not file.load().by_id:
        _print_lock(session, "That was the last token.")


def _explain_failure(error: ValueError | OSError, file: TokenFile) -> click.UsageError:
    """Return a usage error that says what is wrong with tokens, and with which file."""
    if isinstance(error, OSError):
        return click.UsageError(
            f"{error.filename or file.path}: {describe_os_error(error)}; "
            "set tokens_file to a place where this user may write"
        )
    if file.load().problem:
        return click.UsageError(
            f"{file.path}: {error}; let this user read it, restore it, or remove it and make new "
            "tokens"
        )

    return click.UsageError(str(error))


def _check_namespaces(settings: Settings, file: TokenFile, scope: Scope) -> None:
    """Raise ValueError for a token that would keep the server from starting."""
    tokens = TokenSet({token.id: token for token in file.tokens()})
    namespaces = tokens.namespaces
    if scope != "metrics":
        namespaces.add(settings.namespace)

    settings.check_namespaces(namespaces)


def _check_tools(session: Session, tools: tuple[str, ...], scope: Scope) -> None:
    """Raise click.UsageError for tools that a token cannot have."""
    if not tools:
        return
    if scope == "metrics":
        raise click.BadParameter("a token for metrics has no tools", param_hint="--tools")

    with divert_stdout():
        registry, _ = build_registry(session.settings)
    mistake = explain_unknown_tools(tools, registry.names)
    if mistake is not None:
        raise click.BadParameter(mistake, param_hint="--tools")


def _describe_scope(token: Token) -> str:
    if token.scope == "metrics":
        return "may read the metrics of all namespaces, and nothing else"

    words = "write and purge" if token.scope == "purge" else token.scope
    tools = f" with the tools {', '.join(token.tools)}" if token.tools else ""
    return f"may {words} in namespace {token.namespace}{tools}"


def _set_token_mark(session: Session) -> None:
    """Let the store remember that there are tokens, or say that it does not answer."""
    if session.settings.require_tokens is False:
        echo("require_tokens is set to false: callers on this machine need no token.", err=True)

    try:
        asyncio.run(session.set_token_mark())
    except (Refused, ValueError):
        echo(
            "The store does not answer, so it does not remember yet that there are tokens. "
            "'abilities serve' lets it remember when it next sees them.",
            err=True,
        )


def _print_lock(session: Session, cause: str) -> None:
    """Print after its cause who may call a server that has no tokens."""
    settings = session.settings
    tokens = TokenFile(settings.tokens_file).load()
    lock = asyncio.run(find_lock(settings, tokens, partial(has_token_mark, settings)))

    if lock.is_locked:
        echo(f"{cause} 'abilities serve' refuses every caller: {lock.reason}.", err=True)
        echo(f"To go on, {WAY_OUT}.", err=True)
        return

    words = "'abilities serve' answers only this machine, without asking for one"
    echo(f"{cause} {words}: {lock.reason}.", err=True)
