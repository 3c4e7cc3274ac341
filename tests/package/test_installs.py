"""Frameworks are the user's own to install: pages and errors say which command does it."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from abilities.errors import FRAMEWORKS
from tools.installs import PAGES, list_commands, list_imports

MODULES = {
    "agent_framework": "agent_framework",
    "anthropic_memory": "anthropic",
    "crewai": "crewai",
    "deepagents": "deepagents",
    "google_adk": "google.adk",
    "langgraph_store": "langgraph",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}

INSTALLED_BY = {
    "agents": "openai-agents",
    "anthropic": "anthropic",
    "agent_framework": "agent-framework-core",
    "crewai": "crewai",
    "deepagents": "deepagents",
    "google": "google-adk",
    "langchain": "langchain",
    "langgraph": "langchain",
    "llama_index": "llama-index-core",
    "openai": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
}
"""The package in an install line that brings a module."""

OURS = {"abilities", "langchain_core", "pydantic", "typing_extensions"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_installs_what_its_code_imports(page: Path) -> None:
    commands = " ".join(list_commands(page))
    modules = {statement.split()[1].partition(".")[0] for statement in list_imports(page)}
    others = modules - OURS - sys.stdlib_module_names

    assert "./agent-abilities" in commands
    assert [name for name in sorted(others) if INSTALLED_BY[name] not in commands] == []


def test_every_framework_is_named_by_a_page() -> None:
    lines = " ".join(" ".join(list_commands(page)) for page in PAGES)

    for name, requirement in FRAMEWORKS.items():
        package = requirement.partition(">=")[0]
        assert package in lines or name == "langgraph_store", name


def test_an_adapter_without_its_framework_says_what_to_type() -> None:
    code = f"""
    import importlib, sys

    for adapter, module in {MODULES!r}.items():
        sys.modules[module] = None
        try:
            importlib.import_module(f"abilities.adapters.{{adapter}}")
        except ImportError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)

    assert MODULES.keys() == FRAMEWORKS.keys()
    assert done.stdout.splitlines() == [
        f"abilities.adapters.{adapter} needs another package; run: pip install '{requirement}'"
        for adapter, requirement in sorted(FRAMEWORKS.items())
    ]
