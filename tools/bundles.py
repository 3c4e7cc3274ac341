"""Write what clients and registries install from, for the version of the project: `make dist`.

Some files are committed, because clients read them from the repository: the plugin of Claude Code
with its marketplace, and `llms.txt`; `make write` writes them. The others go to `dist/`: the plugin
as an archive, the bundle for Claude Desktop (`.mcpb`) and `server.json` for the MCP registry.
"""

import json
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from abilities.clients.changes import format_hook
from abilities.clients.table import CLIENTS
from abilities.settings import Settings
from tests.support.catalog import BUILT_IN

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME: str = PROJECT["name"]
VERSION: str = PROJECT["version"]
REQUIREMENT = f"{NAME}[mcp]=={VERSION}"
"""What an installer is asked for: the release that the bundle belongs to."""

HOMEPAGE: str = PROJECT["urls"]["Homepage"]
AUTHOR: str = PROJECT["authors"][0]["name"]
OWNER, REPOSITORY = HOMEPAGE.rsplit("/", 2)[1:]
REGISTRY_NAME = f"io.github.{OWNER}/{REPOSITORY}"
MARKER = f"<!-- mcp-name: {REGISTRY_NAME} -->"
"""The line of README by which the registry knows that the package belongs to the server."""

PLUGIN = Path("plugins/claude-code")
SERVER = "abilities"
"""The name of the server in the plugin, and so the beginning of its tools' names."""

SCHEMAS = {
    "marketplace": "https://json.schemastore.org/claude-code-marketplace.json",
    "plugin": "https://json.schemastore.org/claude-code-plugin-manifest.json",
    "server": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
}

HOOK_SECONDS = 60
"""The first start of a release may have to fetch it."""

SETTINGS = ("workspace_dir", "agent_dir", "store_url", "tools")
"""The settings that the registry shows, because people choose them per machine."""

PATHS = ("workspace_dir", "agent_dir")

ENTRY_POINT = """\
\"\"\"Start the MCP server.\"\"\"

from abilities.cli.main import main

main(["mcp"])
"""


def main() -> None:
    for path in build_dist(ROOT / "dist"):
        print(path.relative_to(ROOT))


def build_dist(folder: Path) -> list[Path]:
    """Write the archives and `server.json` into a folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    plugin = folder / f"{NAME}-claude-code-{VERSION}.zip"
    bundle = folder / f"{NAME}-{VERSION}.mcpb"
    server = folder / "server.json"

    files = {path: (ROOT / path).read_text(encoding="utf-8") for path in list_plugin_sources()}
    pack(plugin, {**files, **build_plugin()})
    pack(bundle, build_mcpb())
    server.write_text(to_json(build_server()), encoding="utf-8")
    return [plugin, bundle, server]


def list_plugin_sources() -> list[Path]:
    """Return the paths of the plugin's files, relative to the root."""
    files = (path for path in (ROOT / PLUGIN).rglob("*") if path.is_file())
    return sorted(path.relative_to(ROOT) for path in files)


def build_plugin() -> dict[Path, str]:
    """Return the generated files of the plugin and of its marketplace, by path."""
    return {
        Path(".claude-plugin/marketplace.json"): to_json(build_marketplace()),
        PLUGIN / ".claude-plugin/plugin.json": to_json(build_plugin_manifest()),
        PLUGIN / ".mcp.json": to_json(build_mcp_servers()),
        PLUGIN / "hooks/hooks.json": to_json(build_hooks()),
        PLUGIN / "README.md": build_readme(),
    }


def build_marketplace() -> dict[str, Any]:
    return {
        "$schema": SCHEMAS["marketplace"],
        "name": NAME,
        "description": PROJECT["description"],
        "owner": {"name": AUTHOR, "url": HOMEPAGE},
        "plugins": [
            {
                "name": NAME,
                "source": f"./{PLUGIN}",
                "description": PROJECT["description"],
                "category": "memory",
            }
        ],
    }


def build_plugin_manifest() -> dict[str, Any]:
    return {
        "$schema": SCHEMAS["plugin"],
        "name": NAME,
        "version": VERSION,
        "description": PROJECT["description"],
        "author": {"name": AUTHOR, "url": HOMEPAGE},
        "homepage": HOMEPAGE,
        "repository": HOMEPAGE,
        "license": "MIT",
        "keywords": PROJECT["keywords"],
    }


def build_mcp_servers() -> dict[str, Any]:
    arguments = ["--from", REQUIREMENT, "abilities", "mcp"]
    return {"mcpServers": {SERVER: {"command": "uvx", "args": arguments}}}


def build_hooks() -> dict[str, Any]:
    """Return the hooks of the plugin."""
    hooks = CLIENTS["claude-code"].hooks
    assert hooks is not None
    program = f"uvx --from '{REQUIREMENT}' abilities"
    listed: dict[str, Any] = {}

    for event, matcher in hooks.matchers.items():
        command = format_hook(program, event)
        hook = {"type": "command", "command": command, "timeout": HOOK_SECONDS}
        listed[event] = [
            {"hooks": [hook]} if matcher is None else {"matcher": matcher, "hooks": [hook]}
        ]

    return {"description": "Gives memories of earlier sessions to the model.", "hooks": listed}


def build_readme() -> str:
    """Return the page that Claude Code shows beside the plugin."""
    return f"""\
# {NAME} for Claude Code

{PROJECT["description"]}

```
/plugin marketplace add {OWNER}/{REPOSITORY}
/plugin install {NAME}@{NAME}
```

It needs [uv](https://docs.astral.sh/uv/). It brings the MCP server, a skill that says when to
recall and when to remember, and four hooks:

- At the start of a session and after a compaction, the model is given the long-term notes, the
  notes of the last days and the memories that matter, as data of at most 8,000 bytes.
- Before a compaction, the summary is told what is stored already.
- With a prompt come the memories that surely answer it, and with an edit those about the file, as
  data of at most 1,600 bytes, and each memory once in a session.

Notes and memories are files of yours, in `~/.abilities`, and are sent nowhere else. More is in the
[documentation]({PROJECT["urls"]["Documentation"]}).
"""


def build_mcpb() -> dict[Path, str]:
    """Return the files of the bundle that Claude Desktop installs, by path."""
    project = f"""\
[project]
name = "{NAME}-bundle"
version = "{VERSION}"
requires-python = "{PROJECT["requires-python"]}"
dependencies = ["{REQUIREMENT}"]
"""
    return {
        Path("manifest.json"): to_json(build_manifest()),
        Path("pyproject.toml"): project,
        Path("src/server.py"): ENTRY_POINT,
        Path("LICENSE"): (ROOT / "LICENSE").read_text(encoding="utf-8"),
    }


def build_manifest() -> dict[str, Any]:
    """Return the manifest of the bundle; its version 0.4 is the first with servers that uv runs."""
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": NAME,
        "version": VERSION,
        "description": PROJECT["description"],
        "author": {"name": AUTHOR, "url": HOMEPAGE},
        "repository": {"type": "git", "url": f"{HOMEPAGE}.git"},
        "homepage": HOMEPAGE,
        "documentation": PROJECT["urls"]["Documentation"],
        "support": PROJECT["urls"]["Issues"],
        "server": {
            "type": "uv",
            "entry_point": "src/server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "src/server.py"],
                "env": {"ABILITIES_WORKSPACE_DIR": "${user_config.workspace_dir}"},
            },
        },
        "tools": [{"name": a.name, "description": shorten(a.description)} for a in BUILT_IN],
        "tools_generated": True,
        "prompts_generated": True,
        "keywords": PROJECT["keywords"],
        "license": "MIT",
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": PROJECT["requires-python"]},
        },
        "user_config": {
            "workspace_dir": {
                "type": "directory",
                "title": "Folder to read",
                "description": "The folder whose files the model may read. Credentials in it are "
                "never shared. Neither '/' nor your home folder is accepted.",
                "required": True,
            }
        },
    }


def build_server() -> dict[str, Any]:
    """Return what the MCP registry is told.

    Clients run the command of the package's own name, with the arguments for the runtime before it.
    """
    return {
        "$schema": SCHEMAS["server"],
        "name": REGISTRY_NAME,
        "title": NAME,
        "description": PROJECT["description"],
        "version": VERSION,
        "websiteUrl": HOMEPAGE,
        "repository": {"url": HOMEPAGE, "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "identifier": NAME,
                "version": VERSION,
                "runtimeHint": "uvx",
                "runtimeArguments": [{"type": "named", "name": "--with", "value": REQUIREMENT}],
                "packageArguments": [{"type": "positional", "value": "mcp"}],
                "transport": {"type": "stdio"},
                "environmentVariables": [build_variable(name) for name in SETTINGS],
            }
        ],
    }


def build_variable(name: str) -> dict[str, Any]:
    """Return the environment variable of a setting, as the registry shows it."""
    variable: dict[str, Any] = {
        "name": f"ABILITIES_{name.upper()}",
        "description": Settings.model_fields[name].description,
        "isRequired": False,
    }

    if name in PATHS:
        variable["format"] = "filepath"
    if name == "store_url":
        variable["isSecret"] = True  # that of a database may hold a password

    return variable


def shorten(description: str) -> str:
    """Return the first sentence of a description."""
    return re.split(r"(?<=[.])\s", description, maxsplit=1)[0]


def pack(archive: Path, files: dict[Path, str]) -> None:
    """Write an archive; the same files always give the same bytes."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for path in sorted(files):
            opened.writestr(zipfile.ZipInfo(path.as_posix()), files[path], zipfile.ZIP_DEFLATED)


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
