"""The commands that look after a server's tokens."""

import asyncio
import json
import sys
from functools import partial

import click

from abilities.builtin.profiles import explain_unknown_tools
from abilities.cli.commands import Commands
from abilities.cli.completion import complete_tools
from abilities.cli.errors import describe_os_error
from abilities.cli.options import take_namespace
from abilities.cli.session import Session, pass_session
from abilities.cli.stdout import divert_stdout
from abilities.cli.store_checks import has_token_mark
from abilities.cli.text import echo, echo_line, escape_text
from abilities.cli.token_checks import WAY_OUT, find_lock
from abilities.declarations.faults import Refused
from abilities.helpers.tokens import Scope, Token, TokenFile, TokenSet
from abilities.offer import build_registry
from abilities.settings import Settings, split_names

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
