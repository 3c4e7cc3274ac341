"""Mixed batches of files: every kind of failure between successes, and nothing lost."""

import random

import pytest

from abilities import Abilities, Settings
from tests.support.mixed_batches import Expected, check_answer, mix, read_one_at_a_time
from tests.support.reading import follow, write_files
from tests.support.surfaces import SURFACES

SUCCESSES = [
    Expected("ok.txt", content="fine\n"),
    Expected("both.txt", content="from the agent"),
    Expected("empty.txt"),
    Expected("lines.txt#L10-L11", content="line 10\nline 11\n"),
    Expected("bom16le.txt", content="hällo\n世"),
    Expected("link-inside.txt", content="fine\n"),
    Expected("folder.txt", content="beside the agent's folder"),
]

FAILURES = [
    Expected(5, "not_a_string"),
    Expected("", "empty_path"),
    Expected("/etc/passwd", "absolute_path"),
    Expected("../secret.txt", "parent_traversal"),
    Expected("a\\b", "backslash"),
    Expected("C:/x", "drive_path"),
    Expected("a\nb", "control_character"),
    Expected("x" * 2000, "path_too_long"),
    Expected("/".join("d" * 33), "path_too_deep"),
    Expected("ok.txt/", "trailing_slash"),
    Expected("dir", "is_directory"),
    Expected("missing.txt", "not_found"),
    Expected("link-dangling", "dangling_link"),
    Expected("link-outside.txt", "symlink_escape"),
    Expected("link-self", "symlink_loop"),
    Expected("id_rsa", "denied"),
    Expected("fifo", "not_regular_file"),
    Expected("mode000.txt", "access_denied"),
    Expected("locked.txt", "access_denied"),
    Expected("picture.png", "binary_file"),
    Expected("lines.txt#L9-L3", "invalid_range"),
    Expected("lines.txt#byte=7@000000000000", "changed"),
]

BATCHES = list(mix(SUCCESSES, FAILURES))


@pytest.mark.requirement("R5.6.2", "R5.7.2")
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
async def test_each_item_of_a_mixed_batch_has_its_own_outcome(
    batch: list[Expected], surface: str, settings: Settings, unprivileged: None
) -> None:
    paths = [expected.item for expected in batch]

    answer = await SURFACES[surface](settings, "file_read_bulk", {"paths": paths})

    check_answer(answer, batch)


@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
async def test_an_item_gets_in_a_mixed_batch_what_it_gets_alone(
    batch: list[Expected], settings: Settings, unprivileged: None
) -> None:
    paths = [expected.item for expected in batch]

    async with Abilities.open(settings) as abilities:
        together = await abilities.call("file_read_bulk", {"paths": paths})
        alone = await read_one_at_a_time(abilities, "file_read_bulk", "paths", batch)

    assert together["results"] == alone


async def test_a_mixed_batch_over_the_budget_loses_nothing(roots: Settings) -> None:
    """Failures are told once; what did not fit comes with the next requests, each byte once."""
    settings = roots.model_copy(update={"max_response_bytes": 40_000})
    texts = {f"{n:02}.txt": f"{n:02} äöü\n" * random.Random(n).randint(1, 2_000) for n in range(12)}
    write_files(roots.workspace_dir, texts)
    paths = [path for name in texts for path in (name, f"missing-{name}")]
    request = {"paths": paths, "max_chars_per_file": 100_000}
    pieces = dict.fromkeys(texts, "")
    failures: list[str] = []

    async with Abilities.open(settings) as abilities:
        answers = [answer async for answer in follow(abilities, "file_read_bulk", request)]

    for record in (record for answer in answers for record in answer["results"]):
        if record["success"]:
            pieces[record["data"]["path"]] += record["data"]["content"]
        elif record["error"]["reason"] != "response_budget":
            failures.append(f"{record['input']}: {record['error']['reason']}")

    assert pieces == texts
    assert failures == [f"missing-{name}: not_found" for name in texts]
    assert len(answers) > 2


@pytest.mark.requirement("R5.6.3", "R5.7.4")
async def test_order_is_the_callers_whatever_it_is(roots: Settings) -> None:
    files = [f"{n:02}.txt" for n in range(30)]
    write_files(roots.workspace_dir, files)

    async with Abilities.open(roots) as abilities:
        for seed in range(10):
            paths = random.Random(seed).choices([*files, "none", "../x"], k=25)
            request = {"paths": paths}
            first, again = [await abilities.call("file_read_bulk", request) for _ in range(2)]

            assert [record["input"] for record in first["results"]] == paths
            assert first == again
