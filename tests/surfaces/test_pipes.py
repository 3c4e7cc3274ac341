"""Lines that are written to a pipe: in order, and without a wait on the loop that writes them."""

import asyncio
import os

from abilities.adapters.pipes import LineWriter

SIZES = [1, 100_000, 5, 3_000, 70_000, 1, 1, 300_000, 2]
"""Lines that an empty pipe of 64 KiB has room for, and others."""


async def test_lines_arrive_in_order_whether_a_pipe_has_room_for_them_or_not() -> None:
    lines = [b"%d:" % number + b"x" * size for number, size in enumerate(SIZES * 5)]
    reading, writing = os.pipe()
    writer = LineWriter(writing)

    task = asyncio.create_task(write_all(writer, lines))
    for _ in range(20):  # would hang in a write that blocks the loop
        await asyncio.sleep(0.001)
    assert not task.done(), "nobody reads yet"
    received = asyncio.create_task(asyncio.to_thread(read_all, reading))
    await task
    os.close(writing)

    assert (await received).splitlines() == lines


async def test_lines_are_written_one_by_one_if_each_is_read_before_the_next() -> None:
    reading, writing = os.pipe()
    writer = LineWriter(writing)

    for number in range(50):
        line = b"%d" % number
        await writer.write(line)
        received = await asyncio.to_thread(os.read, reading, 100)
        assert received == line + b"\n"

    os.close(reading)
    os.close(writing)


async def write_all(writer: LineWriter, lines: list[bytes]) -> None:
    for line in lines:
        await writer.write(line)

    await writer.flush()


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()
