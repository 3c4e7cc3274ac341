"""Run LangGraph's own tests of stores over ours: ``python -m tools.langgraph_tests REPOSITORY``.

REPOSITORY is a clone of https://github.com/langchain-ai/langgraph, whose tests are not part of this
package. They are run as they stand: `tools.langgraph_stores` puts our store in the place of theirs.
``--store-url`` names another store than an SQLite file; its namespaces are new ones.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parent.parent

SUITES = {
    "libs/checkpoint": ("test_store.py",),
    "libs/checkpoint-sqlite": ("test_store.py", "test_async_store.py", "test_ttl.py"),
    "libs/checkpoint-postgres": ("test_store.py",),
}

_MOCKS = "it tests its own mock, not a store"
_VECTORS = "it expects vectors: their configuration, cosines as scores, single fields"
_CURSOR = "it reaches into the tables of its own store"
_OWN_FUNCTION = "it tests a function of its own store"

EXPECTED: Mapping[str, str] = {
    "checkpoint test_async_batch_store": _MOCKS,
    "checkpoint test_async_batch_store_deduplication": _MOCKS,
    "checkpoint test_vector_store_initialization": _VECTORS,
    "checkpoint test_embed_with_path": _VECTORS,
    "checkpoint-sqlite test_vector_store_initialization": _VECTORS,
    "checkpoint-sqlite test_embed_with_path": _VECTORS,
    "checkpoint-sqlite test_scores": _VECTORS,
    "checkpoint-sqlite test_sql_injection_vulnerability": "a strange field is no error here: "
    "no SQL is made of it, and nothing has it",
    "checkpoint-sqlite test_filter_keys_with_hyphens_and_digits": "'user.name' is a field of that "
    "name here, as in InMemoryStore, and not the field of a field",
    "checkpoint-sqlite test_escape_glob_literal": _OWN_FUNCTION,
    "checkpoint-sqlite test_namespace_match_pattern": _OWN_FUNCTION,
    "checkpoint-sqlite test_list_namespaces_prefix_uses_indexable_condition": _OWN_FUNCTION,
    "checkpoint-sqlite test_no_running_loop": "our sync methods work within an event loop too",
    "checkpoint-sqlite test_ttl_refresh": "it counts what a sweep deletes; nothing is swept here",
    "checkpoint-sqlite test_ttl_override_default": "it expects that a get does not renew a life, "
    "which BaseStore says it does unless refresh_on_read is false",
    "checkpoint-postgres test_escape_like_literal": _OWN_FUNCTION,
    "checkpoint-postgres test_namespace_match_pattern": _OWN_FUNCTION,
    "checkpoint-postgres test_omit_expired_filters_read_paths": _CURSOR,
    "checkpoint-postgres test_omit_expired_disabled_preserves_expired_rows": _CURSOR,
    "checkpoint-postgres test_omit_expired_refresh_ttl_only_refreshes_live_rows": _CURSOR,
    "checkpoint-postgres test_omit_expired_search_pagination": _CURSOR,
    "checkpoint-postgres test_vector_store_initialization": _VECTORS,
    "checkpoint-postgres test_embed_with_path_sync": _VECTORS,
    "checkpoint-postgres test_embed_with_path_operation_config": _VECTORS,
    "checkpoint-postgres test_scores": _VECTORS,
}
"""Tests that cannot pass over our store, and why."""

_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) tests/\w+\.py::(\w+)", re.M)


def main() -> int:
    """Run the tests, and print what became of them; return 1 if one failed that should not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository", type=Path)
    parser.add_argument("--store-url", help="such as postgresql://localhost/tests")
    arguments = parser.parse_args()

    failed: set[str] = set()
    for suite in SUITES:
        with tempfile.TemporaryDirectory() as folder:
            extract_tests(arguments.repository, suite, Path(folder))
            store_url = arguments.store_url or f"sqlite:///{folder}/memory.db"
            failed |= run_suite(suite, Path(folder), store_url)

    for name in sorted(failed & EXPECTED.keys()):
        print(f"expected: {name}: {EXPECTED[name]}")
    for name in sorted(failed - EXPECTED.keys()):
        print(f"FAILED: {name}")

    return 1 if failed - EXPECTED.keys() else 0


def extract_tests(repository: Path, suite: str, folder: Path) -> None:
    """Put the tests of a suite into a folder."""
    command = ["git", "-C", str(repository), "archive", "HEAD", f"{suite}/tests"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def run_suite(suite: str, folder: Path, store_url: str) -> set[str]:
    """Run the tests of a suite, and print how many passed; return the names of those that failed.

    A test with several cases has failed if one of them has.
    """
    files = [f"tests/{name}" for name in SUITES[suite]]
    options = ["-p", "tools.langgraph_stores", "-c", os.devnull, "--rootdir", "."]
    options += ["-o", "asyncio_mode=auto", "--tb=no", "-q", "-rA"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pytest", *options, *files],
        cwd=folder / suite,
        env={**os.environ, "PYTHONPATH": str(ROOT), "STORE_URL": store_url},
        capture_output=True,
        text=True,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout + done.stderr)

    package = Path(suite).name
    outcomes = [(outcome, f"{package} {name}") for outcome, name in _OUTCOME.findall(done.stdout)]
    counts = Counter(outcome for outcome, _ in outcomes)
    print(f"{suite}: {counts['PASSED']} of {len(outcomes)} cases passed")
    return {name for outcome, name in outcomes if outcome != "PASSED"}


if __name__ == "__main__":
    sys.exit(main())
