"""One job of a sweep in a process of its own: `python -m pipelines.sweeping.worker SWEEP_FOLDER NUMBER DEVICE`."""
from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from hierarchos.errors import UserError
from pipelines import exits
from pipelines.sweeping.jobs import thaw
from pipelines.sweeping.one import refused_row, run_job
from pipelines.sweeping.rows import save_row


def work(folder: Path, number: int, device: str) -> int:
    """Runs the frozen job on the given device; its row is written at the end. The status is the job's."""
    job = thaw(folder, number)
    job = replace(job, config=replace(job.config, device=replace(job.config.device, select=device)))
    try:
        row = run_job(job.prepare(), folder, number)
    except UserError as error:
        row = refused_row(error, list(job.words), number)
    save_row(folder, row)
    return row["exit"]


if __name__ == "__main__":
    exits.stop_on_terminate()
    sys.exit(work(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
