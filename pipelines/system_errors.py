"""What the operating system refuses (a full disk, a folder that cannot be written), told for people."""
from __future__ import annotations

import errno

from hierarchos.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT)
PLACES = {
    errno.EACCES: "may not be used by you", errno.EPERM: "may not be used by you", errno.EROFS: "is on a read-only disk",
    errno.ENOTDIR: "lies below something that is no folder", errno.EISDIR: "is a folder, not a file", errno.EEXIST: "is there already",
    errno.ENAMETOOLONG: "is too long for a name", errno.EIO: "cannot be read or written: the disk reports an error",
}


def told(error: BaseException, outcome: str | None = None) -> UserError | None:
    """The message for an error of the disk or of permissions; None for any other error."""
    if not isinstance(error, OSError):
        return None
    if error.errno in FULL:
        hint = "free some space, then run.resume=latest goes on"
        return UserError("the disk is full", where=_place(error), hint=hint, outcome=outcome or "nothing that was saved is lost")
    if error.errno in PLACES and error.filename is not None:
        return UserError(f"{_place(error)} {PLACES[error.errno]}", outcome=outcome)
    return None


def cannot_be_made(path: object, error: OSError, where: str) -> UserError:
    """A folder that a setting asks for and that the system does not allow."""
    return UserError(f"the folder {path} cannot be made: {(error.strerror or str(error)).lower()}", where=where)


def _place(error: OSError) -> str | None:
    return None if error.filename is None else str(error.filename)
