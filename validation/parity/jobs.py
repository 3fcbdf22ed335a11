"""Runs cases one after the other, or in several processes, and gives their records in the order of the cases."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from validation.parity.cases import Case, case_of
from validation.parity.gates import Record

THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"       # of NumPy and PyTorch: processes share the cores themselves


@dataclass(frozen=True)
class Plan:
    """device: as `open_engine` takes it. folder: of portable results, in place of Transformers. split: every product that can be is
    computed on matrix units. gpu_kernels: the kernels for GPUs of so
    many multiprocessors are used, on a CPU driver too."""

    device: str
    folder: str | None = None
    split: bool = False
    gpu_kernels: int = 0


class Worker:
    """One process: an engine, and who says what is expected."""

    def __init__(self, plan: Plan):
        from validation.parity.engine import open_engine, split_all, use_gpu_kernels

        if plan.split:
            split_all()
        if plan.gpu_kernels:
            use_gpu_kernels(plan.gpu_kernels)
        self.plan, self.engine = plan, open_engine(plan.device)
        self.expect = self.portable() if plan.folder else self.transformers()

    def transformers(self) -> Callable:
        from validation.parity.asked import ask

        return ask

    def portable(self) -> Callable:
        from validation.parity.portable import Portable

        return Portable(self.plan.folder).expected

    def records(self, case: Case) -> list[Record]:
        """Of a case; where it ends with an error, one that did not pass, so that the others are still run."""
        from validation.parity.compare import compare

        try:
            return compare(case, self.engine, self.expect(case))
        except Exception as error:
            traceback.print_exc()
            nan = float("nan")
            return [Record(case.model_type, case.name, f"ended with {type(error).__name__}", nan, nan, nan, False,
                           self.engine.device, self.engine.driver)]


def run(cases: list[Case], plan: Plan, processes: int) -> Iterator[list[Record]]:
    """The records of each case."""
    if processes == 1:
        worker = Worker(plan)
        yield from map(worker.records, cases)
        return
    for name in THREADS:
        os.environ.setdefault(name, "1")
    with multiprocessing.get_context("spawn").Pool(processes, start, (plan,)) as pool:
        yield from pool.imap(work, [(case.model_type, case.name) for case in cases])


def start(plan: Plan) -> None:
    """Makes the worker of this process."""
    global worker
    worker = Worker(plan)


def work(key: tuple[str, str]) -> list[Record]:
    """The records of a case, by its model type and name."""
    return worker.records(case_of(key))
