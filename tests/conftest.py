"""Fixtures: the world of files, and settings that point at it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from abilities import Settings
from tests.support.sample_files import SampleFiles, build_samples, lock_samples
from tests.support.serving import serving
from tests.support.surfaces import SURFACES, Through, calls_through
from tests.support.tier import QUICK, is_in_quick_tier

collect_ignore = [
    "fuzz.py"
]  # it changes what it imports, and needs what only make torture installs
if "ABILITIES_TEST_BROWSER" not in os.environ:
    collect_ignore.append("browser")  # needs what only make browser installs

NOBODY = 65534


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the quick tier does not run."""
    if not QUICK:
        return

    left_out = [item for item in items if not is_in_quick_tier(item)]
    items[:] = [item for item in items if is_in_quick_tier(item)]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def _home() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="abilities-home-") as home:
        os.chmod(home, 0o755)
        yield home


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, _home: str) -> None:
    """No test reads or writes the settings of whoever runs it."""
    monkeypatch.setenv("HOME", _home)
    for name in [name for name in os.environ if name.startswith("ABILITIES_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def world() -> Iterator[SampleFiles]:
    """The world, in a place that every user can reach; built once, for tests that only read."""
    base = Path(tempfile.mkdtemp(prefix="abilities-"))
    base.chmod(0o755)
    made = build_samples(base)
    lock_samples(made)
    yield made
    shutil.rmtree(base)


@pytest.fixture
def settings(world: SampleFiles) -> Settings:
    """Settings for the world, with a store that no other test has opened as another user."""
    return Settings(
        agent_dir=world.agent,
        workspace_dir=world.workspace,
        store_url=f"sqlite:///{world.base}/store/{uuid4().hex}.db",
    )


@pytest.fixture(params=SURFACES)
def through(request: pytest.FixtureRequest) -> Through:
    """Calls through one surface, each compared with Python's."""
    return calls_through(request.param)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Run as a user whom permissions bind; root passes over them."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(user)


@pytest.fixture
def served(roots: Settings, tmp_path: Path) -> Iterator[str]:
    """The address of a server in a process of its own, for the roots."""
    with serving(roots, tmp_path) as server:
        yield server.address
        server.stop()


@pytest.fixture
def roots(tmp_path: Path) -> Settings:
    """Settings for two empty roots that a test may fill."""
    for name in ("agent", "workspace"):
        (tmp_path / name).mkdir()
    store = f"sqlite:///{tmp_path}/memory.db"
    return Settings(
        agent_dir=tmp_path / "agent", workspace_dir=tmp_path / "workspace", store_url=store
    )
