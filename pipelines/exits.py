"""Every way a command can end, as a documented status and a message; a traceback goes into a log, never on the screen."""
from __future__ import annotations

import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from hierarchos.errors import UserError
from pipelines.system_errors import told

DONE, WRONG_INPUT, FAILED, DEVICE, INTERRUPTED = 0, 2, 3, 4, 130
MEANING = {
    DONE: "done",
    WRONG_INPUT: "wrong input; nothing was started, or a stage met a row or file that it cannot use",
    FAILED: "a run failed (a loss that is not a number, an error of ours)",
    DEVICE: "the device was lost, did not answer, or has too little memory",
    INTERRUPTED: "interrupted; run.resume=latest continues",
}


def guarded(command: Callable[[], int]) -> int:
    """Runs a command; whatever goes wrong becomes a message on standard error and a status."""
    try:
        return command()
    except UserError as error:
        return tell(str(error), WRONG_INPUT)
    except KeyboardInterrupt as interrupt:
        return tell(str(interrupt) or "interrupted", INTERRUPTED)
    except BrokenPipeError:                        # `hierarchos ... | head`
        sys.stderr.close()
        return DONE
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> int:
    """The message and status of a failed stage, or of an error of ours."""
    from hierarchos.vulkan.errors import OutOfMemory
    from pipelines.runner import StageFailed

    if (refused := told(error)) is not None:
        return tell(str(refused), WRONG_INPUT)
    if isinstance(error, OutOfMemory):                # found before a run began
        return tell(str(error), DEVICE)
    if not isinstance(error, StageFailed):
        return tell(f"{type(error).__name__}: {error}\n  this is an error of ours; its traceback: {saved_traceback(error)}", FAILED)
    return tell(f"{stage_message(error)}\n  stopped in {error.stage}; log: {error.log}", status_of(error.error))


def stage_message(failed: object) -> str:
    """What a person is told about a failed stage: our own errors in full, foreign ones with their type."""
    error = failed.error
    known = isinstance(error, UserError) or type(error).__module__.startswith("hierarchos.")
    notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
    return (str(error) if known else f"{type(error).__name__}: {error}") + notes


def status_of(error: BaseException) -> int:
    """The status for an error that stopped a stage."""
    from hierarchos.vulkan.errors import DeviceLost, DeviceTimeout, OutOfMemory

    if isinstance(error, UserError):
        return WRONG_INPUT
    return DEVICE if isinstance(error, (DeviceLost, DeviceTimeout, OutOfMemory)) else FAILED


def tell(message: str, status: int) -> int:
    """Prints on standard error."""
    print(message, file=sys.stderr, flush=True)
    return status


def saved_traceback(error: BaseException) -> Path:
    """A new file with the traceback."""
    with tempfile.NamedTemporaryFile("w", prefix="hierarchos-error-", suffix=".log", delete=False, encoding="utf-8") as file:
        file.write("".join(traceback.format_exception(error)))
    return Path(file.name)


def stop_on_terminate(*others: int) -> None:
    """A polite kill (SIGTERM, or one of the signals `others`) ends a run like Ctrl-C does: run.json says interrupted.

    The first one only: what is then written down is not interrupted again."""
    signals = (signal.SIGTERM, *others)

    def interrupt(*_: object) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt("terminated")

    for number in signals:
        signal.signal(number, interrupt)
