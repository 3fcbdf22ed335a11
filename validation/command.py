"""How a command of this folder ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

from hierarchos.errors import UserError


def exit_with(main: Callable[[], int | None]) -> None:
    """Ends the process with the status that `main` returns; with the message alone and status 2 where input is at fault."""
    try:
        sys.exit(main())
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
