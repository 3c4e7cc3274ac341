"""A server of the abilities that the conformance tool calls by name.

The product's own adapter and server carry them. Run as a command, this module serves them on a free
port of loopback and prints the address.
"""

import asyncio
import socket
import sys
import tempfile
from pathlib import Path

import uvicorn
from pydantic import Field

from abilities import (
    Abilities,
    AbilityRegistry,
    Arguments,
    Context,
    Model,
    Refused,
    Settings,
    ability,
)
from abilities.application import Offer, Resources
from abilities.helpers.store.sqlite.store import SqliteStore
from abilities.server.app import create_app
from abilities.server.connections import GracefulServer
from tests.support.stores import store_file


class Nothing(Arguments):
    pass


class Named(Arguments):
    name: str = Field(description="The resource's name.")


class Regional(Arguments):
    region: str = Field(
        description="Also sent as a header.", json_schema_extra={"x-mcp-header": "Region"}
    )


class Text(Model):
    text: str = Field(description="A text.")


@ability(description="Answer with a text.", read_only=True)
async def test_simple_text(context: Context, arguments: Nothing) -> Text:
    return Text(text="This is a simple text response for testing.")


@ability(description="Fail.", read_only=True)
async def test_error_handling(context: Context, arguments: Nothing) -> Text:
    raise Refused("invalid_format")


@ability(description="Take an argument that is mirrored in a header.", read_only=True)
async def test_custom_header(context: Context, arguments: Regional) -> Text:
    return Text(text=arguments.region)


@ability(description="A resource.", read_only=True, resource="test://{name}")
async def test_resource(context: Context, arguments: Named) -> Text:
    if arguments.name not in RESOURCES:
        raise Refused("not_found")
    return Text(text=f"The content of {arguments.name}.")


RESOURCES = ("static-text", "template/123/data")
FIXTURES = (test_simple_text, test_error_handling, test_custom_header, test_resource)


async def serve(folder: Path) -> None:
    settings = Settings(
        agent_dir=folder, workspace_dir=folder, store_url=f"sqlite:///{folder}/memory.db"
    )
    registry = AbilityRegistry(FIXTURES, read_only=True)
    store = SqliteStore(store_file(settings))
    resources = Resources(Offer(registry), [], settings.policy, store)
    abilities = Abilities(resources, settings)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
        config = uvicorn.Config(create_app(abilities), log_config=None, access_log=False)
        await GracefulServer(config).serve(sockets=[listening])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve(Path(folder)))
    sys.exit(0)
