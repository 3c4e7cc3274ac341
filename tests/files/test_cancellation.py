"""Figure 3: cancelled calls leave nothing over, and many at once need few descriptors."""

import asyncio
import gc
import json
import textwrap
import threading

import pytest

from abilities import Abilities, Settings
from tests.support.measurements import reached
from tests.support.programs import run_code
from tests.support.reading import count_descriptors, write_files
from tests.support.waiting import wait_until

FILES = [f"{n:02}.txt" for n in range(25)]
CALL = {"paths": FILES}


async def test_a_thousand_cancelled_calls_leave_nothing_behind(roots: Settings) -> None:
    write_files(roots.workspace_dir, FILES)
    others = set(threading.enumerate())
    async with Abilities.open(roots) as abilities:
        await asyncio.gather(*(abilities.call("file_read_bulk", CALL) for _ in range(16)))
        gc.collect()  # what earlier tests left must not be counted as ours
        threads, before = threading.active_count(), count_descriptors()
        for n in range(1000):
            task = asyncio.create_task(abilities.call("file_read_bulk", CALL))
            await asyncio.sleep(0.0001 * (n % 7))
            task.cancel()

        await wait_until(lambda: count_descriptors() <= before)
        await wait_until(lambda: threading.active_count() <= threads)
        payload = await abilities.call("file_read_bulk", CALL)

        assert payload["summary"]["succeeded"] == 25

    await wait_until(lambda: not list_new_workers(others))  # none outlives the application
    reached(3, "1,000 cancelled calls: no descriptor and no thread left over")


def list_new_workers(others: set[threading.Thread]) -> list[threading.Thread]:
    new_threads = set(threading.enumerate()) - others
    return [thread for thread in new_threads if thread.name == "abilities-worker"]


FEW_DESCRIPTORS = """
    import asyncio, json, os, resource, sys
    from abilities import Abilities, Settings
    agent, workspace, arguments, free, calls = map(json.loads, sys.argv[1:])
    async def main():
        async with Abilities.open(Settings(agent_dir=agent, workspace_dir=workspace)) as abilities:
            plenty = await abilities.call("file_read_bulk", arguments)
            held = len(os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (held + free,) * 2)
            waiting = [abilities.call("file_read_bulk", arguments) for _ in range(calls)]
            answers = await asyncio.gather(*waiting)
            print(all(answer == plenty for answer in answers), plenty["summary"]["succeeded"])
            for _ in range(100):
                if len(os.listdir("/proc/self/fd")) <= held:
                    break
                await asyncio.sleep(0.05)  # threads close what they hold after they have answered
            print(len(os.listdir("/proc/self/fd")) <= held)
    asyncio.run(main())
"""


@pytest.mark.parametrize(("free", "calls"), [(8, 1), (64, 64)])
def test_many_calls_take_few_descriptors(free: int, calls: int, roots: Settings) -> None:
    """Half of the files are small; of the large ones, most wait until the reply has no room."""
    texts = {name: "healthy" if n % 2 else "line\n" * 3_200 for n, name in enumerate(FILES)}
    write_files(roots.workspace_dir, texts)
    arguments = [str(roots.agent_dir), str(roots.workspace_dir), CALL, free, calls]

    done = run_code(textwrap.dedent(FEW_DESCRIPTORS), *map(json.dumps, arguments))

    assert done.stdout.splitlines() == ["True 16", "True"], done.stderr

    reached(3, f"{calls} calls at once with {free} descriptors left: each answered as with plenty")
