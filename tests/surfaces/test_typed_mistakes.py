"""Every typed mistake is answered with the rule and the next step, never with an exception."""

import gzip
import os
import re
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from abilities.cli.main import main
from tests.support.typed_mistakes import FILES, MISTAKES, Mistake

EXCEPTIONS = re.compile(
    r"Traceback|\b\w*(Error|Exception)\b(?!:)|\[Errno|\[type=|pydantic|line \d+, in "
)
"""What shows an exception to a person; "Error:" alone is how every message begins."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with files of all kinds and a store with one memory."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)

    (tmp_path / "memories.jsonl.gz").write_bytes(gzip.compress(b"{}\n"))
    (tmp_path / "torn.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE songs (title TEXT)")

    broken = Path(os.environ["HOME"], ".gemini", "settings.json")
    broken.parent.mkdir()
    broken.write_text("{")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABILITIES_STORE_URL", f"sqlite:///{tmp_path}/memory.db")
    memory = '{"type": "core", "key": "tea", "content": "Green tea."}'
    stored = CliRunner().invoke(main, ["call", "store_memory", memory])
    assert stored.exit_code == 0, stored.output
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.typed)
def test_a_typed_mistake_is_answered_with_the_rule_and_the_next_step(
    mistake: Mistake, folder: Path
) -> None:
    words, variables = shlex.split(mistake.typed), dict(mistake.variables)

    done = CliRunner().invoke(main, words, env=variables, prog_name="abilities", input="")

    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    answer = " ".join(done.output.split())
    assert mistake.rule in answer, answer
    assert mistake.step in answer, answer
    assert not EXCEPTIONS.search(answer), answer
    assert done.exit_code == mistake.exit_code, answer
