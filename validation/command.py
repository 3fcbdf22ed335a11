"""How a command of this folder ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

from hierarchos.errors import UserError
from pipelines.exits import WRONG_INPUT, tell


def exit_with(main: Callable[[], int | None]) -> None:
    """Ends the process with the status that `main` returns; with the message alone and `WRONG_INPUT` where input is at fault. Errors of
    ours keep their traceback: this folder is for those who mend them."""
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(tell(str(error), WRONG_INPUT))
