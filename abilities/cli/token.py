"""The commands that look after a server's tokens."""

import json
import sys

import click

from abilities.cli.folders import list_folders
from abilities.cli.session import Session, pass_session
from abilities.helpers.tokens import Scope, TokenFile

MAX_LABEL_CHARS = 100

_ADD_EXAMPLE = """\b
Example:
  abilities token add --namespace team --scope read --label 'laptop of Ada'
"""


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of 'abilities serve'.

    As soon as there is one token, every caller of the server needs one. A running server notices
    changes at once.
    """


@token.command(epilog=_ADD_EXAMPLE)
@click.option(
    "--namespace",
    help="The namespace whose memories and files the token opens (default: the configured one).",
)
@click.option(
    "--scope",
    type=click.Choice(["read", "write"]),
    required=True,
    help="What the token allows; 'write' includes reading.",
)
@click.option(
    "--label",
    default="",
    help=f"Who gets the token, for example 'laptop of Ada' (at most {MAX_LABEL_CHARS} characters).",
)
@pass_session
def add(session: Session, namespace: str | None, scope: Scope, label: str) -> None:
    """Make a token and print it on stdout.

    It is printed only this once: the tokens file keeps nothing but its hash.
    """
    if len(label) > MAX_LABEL_CHARS:
        raise click.BadParameter(f"at most {MAX_LABEL_CHARS} characters", param_hint="--label")

    settings = session.settings
    file = TokenFile(settings.tokens_file)

    # A token that makes namespaces share files would keep the server from starting.
    try:
        settings = settings.for_namespace(namespace or settings.namespace)
        existing = [token.namespace for token in file.tokens()]
        settings.check_namespaces([settings.namespace, *existing])
        created, text = file.add(settings.namespace, scope, label)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None

    # The token alone is on stdout, so that it can be piped into a file or a secret store.
    click.echo(
        f"Token {created.id} may {scope} in namespace {created.namespace}. "
        "Save it now, it is not shown again:",
        err=True,
    )
    click.echo(text)

    for folder in list_folders(settings):
        if not folder.optional and not folder.path.is_dir():
            click.echo(
                f"Its {folder.name} directory {folder.path} does not exist yet; "
                "create it to share files.",
                err=True,
            )


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array instead of lines.")
@pass_session
def list_(session: Session, as_json: bool) -> None:
    """List the tokens by ID, without their secrets, which nobody keeps.

    A line holds the ID, the scope, the time it was made, the namespace and the label.
    """
    try:
        tokens = TokenFile(session.settings.tokens_file).tokens()
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    if as_json:
        click.echo(json.dumps([token.model_dump(exclude={"sha256"}) for token in tokens]))
        return

    for token in tokens:
        columns = (token.id, f"{token.scope:<5}", token.created_at, token.namespace, token.label)
        click.echo("  ".join(columns).rstrip())

    if not tokens:
        click.echo(
            "There are no tokens: 'abilities serve' answers only this machine, "
            "without asking for one.",
            err=True,
        )


@token.command()
@click.argument("token_id", metavar="ID")
@pass_session
def revoke(session: Session, token_id: str) -> None:
    """Revoke a token by its ID, at once.

    'abilities token list' shows the IDs. Exits with 1 if there is no such token.
    """
    try:
        revoked = TokenFile(session.settings.tokens_file).revoke(token_id)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None

    if revoked is None:
        click.echo(f"There is no token with the ID {token_id!r}.", err=True)
        sys.exit(1)

    click.echo(f"Revoked {revoked.id}.", err=True)
