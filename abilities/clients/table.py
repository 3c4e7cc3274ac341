"""The clients that can be set up: the places and forms of their configuration.

Sources, as published in November 2026:

- Claude Code: https://code.claude.com/docs/en/mcp and https://code.claude.com/docs/en/hooks;
  CLAUDE_CONFIG_DIR moves .claude.json too (https://github.com/microsoft/apm/issues/2060); servers
  start in the folder of the session (https://github.com/anthropics/claude-code/issues/17565); the
  output of a PreCompact hook guides the summary
  (https://github.com/lossless-claude/lcm/issues/228). Tools are found when they are needed:
  https://code.claude.com/docs/en/mcp#scale-with-mcp-tool-search.
- Claude Desktop: https://modelcontextprotocol.io/quickstart/user; it reads neither comments nor
  trailing commas (https://mcpbundles.com/blog/claude-desktop-mcp).
- Cursor: https://cursor.com/docs/mcp
- VS Code: https://code.visualstudio.com/docs/agents/reference/mcp-configuration; servers of the
  user profile start in the home folder (https://github.com/microsoft/vscode/issues/250078), and
  ${workspaceFolder} fails without an open folder (https://github.com/microsoft/vscode/issues/243526).
- Codex: https://developers.openai.com/codex/mcp and https://developers.openai.com/codex/hooks; an
  edit is a patch (https://github.com/openai/codex/pull/18391), and may get context before it
  (https://github.com/openai/codex/pull/20692).
- Gemini CLI: https://geminicli.com/docs/reference/configuration and
  https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md; of hooks, those
  of sessions and prompts may give context (https://geminicli.com/docs/hooks/reference).
- OpenCode: https://opencode.ai/docs/config/ and https://opencode.ai/docs/mcp-servers/; version 2
  reads the same form (https://opencode.ai/docs/migrate-v1/); servers start in the project's folder
  (https://github.com/anomalyco/opencode/issues/30677).
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Machine:
    """The machine as it determines the places of files."""

    home: Path = field(default_factory=Path.home)
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    platform: str = sys.platform

    def find_folder(self, variable: str, default: str) -> Path:
        """Return the folder in a variable, or by default a folder beneath the home folder."""
        value = self.variables.get(variable)
        return Path(value).expanduser().absolute() if value else self.home / default

    @property
    def application_folder(self) -> Path:
        """The folder for the configuration of desktop applications."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"

        return self.find_folder("XDG_CONFIG_HOME", ".config")


@dataclass(frozen=True)
class Hooks:
    """The hooks of a client: their files, and the events with the tools that they are for."""

    find_user_file: Callable[[Machine], Path]
    project_file: str
    matchers: Mapping[str, str | None]

    def find_file(self, machine: Machine, project: Path | None) -> Path:
        """Return the file for a project, or for the user."""
        return self.find_user_file(machine) if project is None else project / self.project_file


@dataclass(frozen=True)
class Client:
    """A client: its files, the form of a server in them, and how to try it."""

    name: str
    title: str
    program: str | None
    find_user_file: Callable[[Machine], Path]
    project_file: str | None
    shape: Literal["plain", "stdio", "opencode"]
    starts_in_project: bool
    next_step: str
    keys: tuple[str, ...] = ("mcpServers", "abilities")
    format: Literal["json", "toml"] = "json"
    reads_comments: bool = True
    writes_files: bool = True
    defers_tools: bool = False
    """Whether the model gets the description of a tool only when it searches for tools."""
    hooks: Hooks | None = None
    find_sessions_folder: Callable[[Machine, Path | None], Path] | None = None
    """Returns the folder of the sessions of a project, or of all."""

    def find_file(self, machine: Machine, project: Path | None) -> Path:
        """Return the file for a project, or for the user. Raises ValueError if there is none."""
        if project is None:
            return self.find_user_file(machine)
        if self.project_file is None:
            raise ValueError(f"{self.title} has no configuration of a project")

        return _prefer_existing(project / self.project_file)

    def is_found(self, machine: Machine) -> bool:
        """Return whether the client, or a trace of it, is on this machine."""
        if self.program is not None:
            path = machine.variables.get("PATH")
            if shutil.which(self.program, path=path) is not None:
                return True

        file = self.find_user_file(machine)
        return file.exists() or (file.parent != machine.home and file.parent.is_dir())


def _find_claude_code_sessions(machine: Machine, project: Path | None) -> Path:
    folder = machine.find_folder("CLAUDE_CONFIG_DIR", ".claude") / "projects"
    if project is None:
        return folder

    return folder / re.sub(r"[^A-Za-z0-9]", "-", str(project))


def _find_opencode(machine: Machine) -> Path:
    file = machine.variables.get("OPENCODE_CONFIG")
    if file:
        return Path(file).expanduser().absolute()

    folder = machine.find_folder("XDG_CONFIG_HOME", ".config") / "opencode"
    folder = machine.find_folder("OPENCODE_CONFIG_DIR", str(folder))
    return _prefer_existing(folder / "opencode.json")


def _prefer_existing(file: Path) -> Path:
    """Return the .jsonc file beside a file if OpenCode would read that one."""
    commented = file.with_suffix(".jsonc")
    if file.name == "opencode.json" and commented.exists():
        return commented

    return file


def _find_in(variable: str, default: str, file: str) -> Callable[[Machine], Path]:
    """Return what finds a file in the folder that a variable names, or by default one of home."""
    return lambda machine: machine.find_folder(variable, default) / file


_find_gemini = _find_in("GEMINI_CLI_HOME", "", ".gemini/settings.json")

_QUESTION = "Then ask: What do you remember about this project?"

CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="claude-code",
            title="Claude Code",
            program="claude",
            find_user_file=_find_in("CLAUDE_CONFIG_DIR", "", ".claude.json"),
            project_file=".mcp.json",
            shape="stdio",
            starts_in_project=True,
            next_step="Start a new session of Claude Code and type /mcp, which lists abilities "
            f"as connected. {_QUESTION}",
            reads_comments=False,
            defers_tools=True,
            hooks=Hooks(
                find_user_file=_find_in("CLAUDE_CONFIG_DIR", ".claude", "settings.json"),
                project_file=".claude/settings.json",
                matchers={
                    "SessionStart": None,
                    "PreCompact": None,
                    "UserPromptSubmit": None,
                    "PreToolUse": "Edit|Write|MultiEdit|NotebookEdit",
                },
            ),
            find_sessions_folder=_find_claude_code_sessions,
        ),
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            program=None,
            find_user_file=(
                lambda machine: machine.application_folder / "Claude" / "claude_desktop_config.json"
            ),
            project_file=None,
            shape="plain",
            starts_in_project=False,
            next_step="Quit Claude Desktop, start it again, and look for abilities among the "
            "connectors of a new chat. Then ask: What do you remember about me?",
            reads_comments=False,
            writes_files=False,
        ),
        Client(
            name="cursor",
            title="Cursor",
            program="cursor",
            find_user_file=lambda machine: machine.home / ".cursor" / "mcp.json",
            project_file=".cursor/mcp.json",
            shape="stdio",
            starts_in_project=False,
            next_step="Restart Cursor, and check in its MCP settings that abilities is switched "
            f"on. {_QUESTION}",
        ),
        Client(
            name="vscode",
            title="VS Code",
            program="code",
            find_user_file=(
                lambda machine: machine.application_folder / "Code" / "User" / "mcp.json"
            ),
            project_file=".vscode/mcp.json",
            keys=("servers", "abilities"),
            shape="stdio",
            starts_in_project=False,
            next_step="Run 'MCP: List Servers' from VS Code's command palette, and start "
            f"abilities. {_QUESTION}",
        ),
        Client(
            name="codex",
            title="Codex",
            program="codex",
            find_user_file=_find_in("CODEX_HOME", ".codex", "config.toml"),
            project_file=".codex/config.toml",
            keys=("mcp_servers", "abilities"),
            shape="plain",
            format="toml",
            starts_in_project=True,
            next_step=f"Start codex and type /mcp, which lists abilities. {_QUESTION}",
            hooks=Hooks(
                find_user_file=_find_in("CODEX_HOME", ".codex", "hooks.json"),
                project_file=".codex/hooks.json",
                matchers={
                    "SessionStart": None,
                    "UserPromptSubmit": None,
                    "PreToolUse": "apply_patch",
                },
            ),
            find_sessions_folder=(
                lambda machine, _: machine.find_folder("CODEX_HOME", ".codex") / "sessions"
            ),
        ),
        Client(
            name="gemini",
            title="Gemini CLI",
            program="gemini",
            find_user_file=_find_gemini,
            project_file=".gemini/settings.json",
            shape="plain",
            starts_in_project=True,
            next_step="Start gemini and type /mcp, which lists abilities as connected. "
            f"{_QUESTION}",
            hooks=Hooks(
                find_user_file=_find_gemini,
                project_file=".gemini/settings.json",
                matchers={"SessionStart": None, "BeforeAgent": None},
            ),
        ),
        Client(
            name="opencode",
            title="OpenCode",
            program="opencode",
            find_user_file=_find_opencode,
            project_file="opencode.json",
            keys=("mcp", "abilities"),
            shape="opencode",
            starts_in_project=True,
            next_step="Run 'opencode mcp list', which names abilities as connected, and start "
            f"opencode. {_QUESTION}",
        ),
    )
}
"""The clients by name."""
