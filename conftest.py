"""Adapters of agent frameworks are imported only where these are installed, by `make adapters`."""

from pathlib import Path

collect_ignore = [
    f"abilities/adapters/{path.name.removeprefix('test_')}"
    for path in Path(__file__).parent.glob("tests/adapters/test_*.py")
]
