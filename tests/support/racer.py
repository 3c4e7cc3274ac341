"""Swap two names as fast as the system can, atomically, until killed: ``racer.py NAME OTHER``.

The swap is renameat2(RENAME_EXCHANGE): both names exist at every moment, and each stands for one
thing, then for the other. This is the attacker of the confinement tests.
"""

import ctypes
import os
import sys

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def exchange(libc: ctypes.CDLL, first: bytes, second: bytes) -> None:
    if libc.renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Swap until killed; one line on stdout says that it has begun."""
    libc = ctypes.CDLL(None, use_errno=True)
    first, second = (name.encode() for name in sys.argv[1:3])
    exchange(libc, first, second)
    print("racing", flush=True)
    while True:
        exchange(libc, first, second)


if __name__ == "__main__":
    main()
