"""Swap two names as fast as the system can, atomically, until killed: ``racer.py NAME OTHER``.

The swap is renameat2(RENAME_EXCHANGE): at every moment both names exist, and each is now one thing, now
the other. That is the attacker of the confinement tests.
"""

import ctypes
import os
import sys

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def exchange(libc: ctypes.CDLL, one: bytes, other: bytes) -> None:
    """Swap two names. Raises OSError."""
    if libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Swap until killed; one line on stdout says that it has begun."""
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = (name.encode() for name in sys.argv[1:3])
    exchange(libc, one, other)
    print("racing", flush=True)
    while True:
        exchange(libc, one, other)


if __name__ == "__main__":
    main()
