"""Figure 3: cancelled calls leave nothing over, and many at once need few descriptors."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading

from abilities import Abilities, Settings
from tests.support.measurements import reached
from tests.support.waiting import GIVE_UP_SECONDS, wait_until

FILES = [f"{n:02}.txt" for n in range(25)]


def write_files(settings: Settings) -> None:
    for name in FILES:
        (settings.workspace_dir / name).write_text("healthy")


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def test_a_thousand_cancelled_calls_leave_nothing_behind(roots: Settings) -> None:
    write_files(roots)
    others = set(threading.enumerate())
    async with Abilities.open(roots) as abilities:
        await asyncio.gather(
            *(abilities.call("file_read_bulk", {"paths": FILES}) for _ in range(16))
        )
        gc.collect()  # what earlier tests left must not be counted as ours
        threads, before = threading.active_count(), count_descriptors()
        for n in range(1000):
            task = asyncio.create_task(abilities.call("file_read_bulk", {"paths": FILES}))
            await asyncio.sleep(0.0001 * (n % 7))
            task.cancel()

        await wait_until(lambda: count_descriptors() <= before)
        await wait_until(lambda: threading.active_count() <= threads)
        payload = await abilities.call("file_read_bulk", {"paths": FILES})

        assert payload["summary"]["succeeded"] == 25

    await wait_until(lambda: not list_new_workers(others))  # none outlives the application
    reached(3, "1,000 cancelled calls: no descriptor and no thread left over")


def list_new_workers(others: set[threading.Thread]) -> list[threading.Thread]:
    new_threads = set(threading.enumerate()) - others
    return [thread for thread in new_threads if thread.name == "abilities-worker"]


def test_sixty_four_calls_at_once_stay_within_256_descriptors(roots: Settings) -> None:
    write_files(roots)
    script = """
        import asyncio, resource, sys
        from abilities import Abilities, Settings
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        async def main():
            settings = Settings(agent_dir=sys.argv[1], workspace_dir=sys.argv[2])
            async with Abilities.open(settings) as abilities:
                arguments = {"paths": [f"{n:02}.txt" for n in range(25)]}
                calls = [abilities.call("file_read_bulk", arguments) for _ in range(64)]
                answers = await asyncio.gather(*calls)
            print(sum(answer["summary"]["succeeded"] for answer in answers))
        asyncio.run(main())
    """

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(script),
            str(roots.agent_dir),
            str(roots.workspace_dir),
        ],
        capture_output=True,
        timeout=GIVE_UP_SECONDS,
        check=True,
    )

    assert done.stdout.split() == [b"1600"], done.stderr

    reached(3, "64 calls at once with 256 descriptors: all 1,600 items answered")
