"""Who is at work in a run directory: a file lock that the system lets go when its holder dies, even by SIGKILL."""
from __future__ import annotations

import os
from pathlib import Path


class Lock:
    """An exclusive lock on `path`; `acquire` returns False where another process holds it."""

    def __init__(self, path: Path):
        self.path = path
        self.file = None

    def acquire(self) -> bool:
        self.file = self.path.open("a")
        if _try_lock(self.file.fileno()):
            return True
        self.release()
        return False

    def release(self) -> None:
        if self.file is not None:
            self.file.close()                     # closing gives the lock back
            self.file = None


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock; nothing is created."""
    if not path.exists():
        return False
    lock = Lock(path)
    free = lock.acquire()
    lock.release()
    return not free


def _try_lock(descriptor: int) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
