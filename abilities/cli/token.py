"""The commands that look after a server's tokens."""

import json
import sys
from typing import Any

import click

from abilities.cli.options import load_settings
from abilities.helpers.tokens import Scope, Token, TokenFile
from abilities.settings import Settings


@click.group()
def token() -> None:
    """Make, list and revoke the tokens of 'abilities serve'.

    With the first token every caller needs one. A running server notices changes at once.
    """


@token.command()
@click.option(
    "--namespace", help="Whose memories and files the token opens [the settings' namespace]."
)
@click.option(
    "--scope", type=click.Choice(["read", "write"]), required=True, help="What may be done with it."
)
@click.option(
    "--label", default="", help="Who gets it, as 'laptop of Ada'; 100 characters at most."
)
@click.pass_obj
def add(given: dict[str, Any], namespace: str | None, scope: Scope, label: str) -> None:
    """Make a token and print it: it is shown this once, only its hash is kept."""
    if len(label) > 100:
        raise click.BadParameter("100 characters at most", param_hint="--label")
    settings = load_settings(given)
    file = TokenFile(settings.tokens_file)
    try:
        settings = settings.for_namespace(namespace or settings.namespace)
        settings.check_namespaces(
            [settings.namespace, *(token.namespace for token in file.tokens())]
        )
        made, text = file.add(settings.namespace, scope, label)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(
        f"Token {made.id} may {scope} in namespace {made.namespace}. Keep it, it is not shown again:",
        err=True,
    )
    click.echo(text)
    directories = [("workspace", settings.workspace_path)]
    if not settings.has_default_agent_dir:
        directories.insert(0, ("agent", settings.agent_path))
    for name, path in directories:
        if not path.is_dir():
            click.echo(
                f"Its {name} directory {path} does not exist yet; make it to share files.",
                err=True,
            )


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print an array.")
@click.pass_obj
def list_(given: dict[str, Any], as_json: bool) -> None:
    """List the tokens; they themselves are not kept."""
    found = _tokens(load_settings(given))
    if as_json:
        click.echo(json.dumps([token.model_dump(exclude={"sha256"}) for token in found]))
        return
    for kept in found:
        click.echo(
            f"{kept.id}  {kept.scope:<5}  {kept.created_at}  {kept.namespace}  {kept.label}".rstrip()
        )
    if not found:
        click.echo(
            "There are no tokens: the server answers this machine alone, without any.", err=True
        )


@token.command()
@click.argument("name", metavar="ID")
@click.pass_obj
def revoke(given: dict[str, Any], name: str) -> None:
    """Revoke a token by its ID, at once."""
    try:
        revoked = TokenFile(load_settings(given).tokens_file).revoke(name)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None
    if revoked is None:
        click.echo("There is no token of this ID.", err=True)
        sys.exit(1)
    click.echo(f"Revoked {revoked.id}.", err=True)


def _tokens(settings: Settings) -> list[Token]:
    try:
        return TokenFile(settings.tokens_file).tokens()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
