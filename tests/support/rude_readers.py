"""The module of a package whose readers try everything that readers may not do."""

import re

RUDE = """
import os, socket, subprocess, sys, time

class Reader:
    magic = b""
    imports = ()

    def __init__(self, suffix, convert):
        self.suffixes = (suffix,)
        self.convert = convert

def escape(stream):
    path = stream.read().decode()
    attempts = {
        "read": lambda: open(path).read(),
        "open": lambda: os.open(path, os.O_RDONLY),
        "write": lambda: open(path + ".new", "w"),
        "delete": lambda: os.remove(path),
        "folder": lambda: os.mkdir(path + ".folder"),
        "link": lambda: os.symlink(path, path + ".link"),
        "connect": lambda: socket.create_connection(("127.0.0.1", 9)),
        "socket": lambda: socket.socket(socket.AF_UNIX),
        "resolve": lambda: socket.getaddrinfo("localhost", 80),
        "program": lambda: subprocess.run(["true"]),
        "shell": lambda: os.system("true"),
        "fork": os.fork,
        "replace": lambda: os.execv("/bin/true", ["true"]),
        "kill": lambda: os.kill(os.getppid(), 9),
        "library": lambda: __import__("ctypes").CDLL(None),
        "memory": lambda: bytes(2**30),
    }
    for name, attempt in attempts.items():
        try:
            outcome = f"done: {attempt()!r}"
        except BaseException as error:
            outcome = type(error).__name__
        yield f"try {name}", outcome

def look(stream):
    open_descriptors = []
    for number in range(1000):
        try:
            os.fstat(number)
        except OSError:
            continue
        open_descriptors.append(number)
    yield "seen variables", repr(sorted(os.environ))
    yield "seen descriptors", repr(open_descriptors)

def crash(stream):
    yield "part one", "fine"
    os.abort()

def end(stream):
    os._exit(0)

def leave(stream):
    sys.exit(1)

def recur(stream):
    yield from recur(stream)

def hang(stream):
    yield "part one", "fine"
    while True:
        time.sleep(1)

def flood(stream):
    while True:
        yield "", "x" * 99 + "\\n"

def swell(stream):
    held = []
    while True:
        held.append(bytes(10_000_000))
    yield

def lie(stream):
    yield 1, None

def stamp(stream):
    yield "stamp one", str(time.monotonic_ns())

def wait(stream):
    if os.fstat(0).st_size > 1:
        yield "", "new"
    while os.fstat(0).st_size == 1:
        time.sleep(0.01)
    yield "", "old"

for name, value in list(globals().items()):
    if callable(value) and name.islower():
        globals()[name.upper()] = Reader(f".{name}", value)
"""

POINTS = {
    name: f"rude:{name.upper()}"
    for name in re.findall(r"^def ([a-z]+)\(stream", RUDE, re.MULTILINE)
}
"""The entry points of the readers, each for files with its name as a suffix."""
