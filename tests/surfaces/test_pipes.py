"""Lines over pipes: in order, a bounded number ahead, and without a wait on the loop."""

import asyncio
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from abilities.adapters.stdio import MAX_LINE, TOO_LONG, LineReader, LineSplitter, LineWriter

SIZES = [1, 100_000, 5, 3_000, 70_000, 1, 1, 300_000, 2]
"""Lines that an empty pipe of 64 KiB has room for, and others."""


async def test_lines_arrive_in_order_whether_a_pipe_has_room_for_them_or_not() -> None:
    lines = [b"%d:" % number + b"x" * size for number, size in enumerate(SIZES * 5)]
    reading, writing = os.pipe()
    writer = LineWriter(writing)

    async def write_all() -> None:
        for line in lines:
            await writer.write(line)
        await writer.flush()

    task = asyncio.create_task(write_all())
    for _ in range(20):  # would hang in a write that blocks the loop
        await asyncio.sleep(0.001)
    assert not task.done(), "nobody reads yet"
    with os.fdopen(reading, "rb") as pipe:
        received = asyncio.create_task(asyncio.to_thread(pipe.read))
        await task
        os.close(writing)
        assert (await received).splitlines() == lines


async def test_lines_of_a_file_are_read_to_its_end(tmp_path: Path) -> None:
    lines = [b"%d" % number for number in range(30_000)]
    file = tmp_path / "requests.jsonl"
    file.write_bytes(b"\n".join(lines))

    descriptor = os.open(file, os.O_RDONLY)
    received = await read_lines(LineReader(descriptor))
    os.close(descriptor)

    assert received == lines


async def test_a_descriptor_that_does_not_block_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    reader = LineReader(reading)

    for number in range(3):
        os.write(writing, b"%d\n" % number)
        assert await reader.read() == b"%d" % number
    os.close(writing)

    assert await reader.read() is None
    os.close(reading)


async def test_lines_wait_in_the_pipe_until_those_before_them_are_taken() -> None:
    lines = [b"%d:" % number + b"x" * 20_000 for number in range(500)]
    reading, writing = os.pipe()
    reader = LineReader(reading)

    os.set_blocking(writing, False)
    sent = await send_while_taken(writing, b"\n".join(lines))
    assert sent < 4_000_000, "the reader takes more than it should"

    os.set_blocking(writing, True)

    def send_rest() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(b"\n".join(lines)[sent:])

    rest = asyncio.create_task(asyncio.to_thread(send_rest))
    received = await read_lines(reader)
    await rest
    os.close(reading)

    assert received == lines


async def test_the_end_is_noticed_though_no_line_is_taken() -> None:
    lines = [b"%d" % number for number in range(5_000)]
    reading, writing = os.pipe()
    reader = LineReader(reading)

    os.write(writing, b"\n".join(lines))
    await asyncio.sleep(0)
    assert not reader.ended.is_set()
    os.close(writing)
    await asyncio.wait_for(reader.ended.wait(), 30)

    assert await read_lines(reader) == lines
    os.close(reading)


@given(st.lists(st.binary(max_size=30) | st.just(b"\n") | st.just(b"a" * MAX_LINE), max_size=8))
def test_lines_do_not_depend_on_how_their_bytes_arrive(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    received: list[bytes] = []
    for chunk in [*filter(None, chunks), b""]:
        received += splitter.split(chunk)

    lines = [line for line in b"".join(chunks).split(b"\n") if line.strip()]
    assert received == [line if len(line) <= MAX_LINE else TOO_LONG for line in lines]


async def send_while_taken(descriptor: int, data: bytes) -> int:
    """Write to a pipe until its reader has taken nothing for long; return how much was written."""
    sent = 0
    for _ in range(1_000):
        try:
            sent += os.write(descriptor, data[sent : sent + 4_096])
        except BlockingIOError:
            await asyncio.sleep(0.001)

    return sent


async def read_lines(reader: LineReader) -> list[bytes]:
    lines: list[bytes] = []
    while (line := await reader.read()) is not None:
        lines.append(line)

    return lines
