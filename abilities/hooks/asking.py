"""`abilities hook`: hand a client's event to a server that runs already, or else answer it here.

A client waits for its hooks, and importing what answers takes ten times as long as asking. So this
module imports little, and `abilities mcp`, which clients start with each session, answers for it.
"""

import gc
import hashlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import NoReturn

FOLDER = "~/.abilities/hooks"
"""The folder of the sockets of servers, and of what each session has seen."""

MAX_BYTES = 8 << 20
"""Maximum size of an event; clients pass the whole content of a file that is written."""

ANSWERED = b"="
"""The beginning of a server's answer, which may be empty after it."""

_SECONDS = 1.0
_PATIENT_SECONDS = {"SessionStart": 10.0, "PreCompact": 10.0}
"""How long an event may take, for those that are rare and have much to read."""


def answer_stdin(event: str) -> NoReturn:
    """Print the answer to the event on stdin, and end the process with exit code 0.

    Nothing is printed if that fails or takes too long: a client must go on without the answer, and
    some take another exit code as a refusal.
    """
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, _PATIENT_SECONDS.get(event, _SECONDS))
    gc.disable()  # the process ends soon

    try:
        stdout, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)  # plugins may print
        os.dup2(nothing, 2)
        os.chdir(os.environ.get("CLAUDE_PROJECT_DIR", "."))  # where the session was started
        given = sys.stdin.buffer.read(MAX_BYTES + 1)

        if len(given) <= MAX_BYTES:
            answer = _ask_servers(event, given)
            if answer is None:
                os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # finding them takes long
                # It imports nearly the whole package.
                from abilities.hooks.answering import answer_here

                answer = answer_here(event, given)

            with os.fdopen(stdout, "wb") as file:
                file.write(answer)
    finally:
        os._exit(0)


def _give_up(_signal: int, _frame: object) -> NoReturn:
    os._exit(0)


def name_servers(variables: Mapping[str, str]) -> str:
    """Return the beginning of the names of sockets of servers with the same settings as this one.

    It is a hash of the current folder and of the environment variables that are settings. Raises
    OSError if the current folder does not exist any more.
    """
    parts = [os.getcwd()]
    for name, value in sorted(variables.items()):
        if name.upper().startswith("ABILITIES_"):
            parts.append(f"{name.upper()}={value}")

    text = "\0".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _ask_servers(event: str, given: bytes) -> bytes | None:
    """Return the answer of a server with the same settings; None if there is none."""
    folder, beginning = os.path.expanduser(FOLDER), name_servers(os.environ)
    names = os.listdir(folder) if os.path.isdir(folder) else []

    for name in names:
        if not name.startswith(beginning):
            continue

        path = os.path.join(folder, name)
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)  # of a server that was killed
                continue

            connection.sendall(event.encode() + b"\n" + given)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))

        if answer.startswith(ANSWERED):
            return answer.removeprefix(ANSWERED)

    return None
