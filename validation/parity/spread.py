"""How often PyTorch misses its own gates: the evidence for choosing token ids (`seeds.py`).

    python -m validation.parity.spread [NAMES] [--seed S] [--stand-ins N]

Each stand-in (`stand_in.py`: PyTorch with shuffled sums and results rounded another way) is judged as a device is; they are others than
those by which ids were chosen. --seed takes the same token ids for all cases instead of those chosen for them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from hierarchos.errors import UserError
from validation.command import exit_with
from validation.parity import oracle
from validation.parity.asked import ask
from validation.parity.cache import cached
from validation.parity.cases import CASES, STAND_INS, Case, batch_arrays, cases_of, checked
from validation.parity.gates import share
from validation.parity.stand_in import measures

COUNT = 4


def shares(case: Case, count: int) -> Iterator[float]:
    """error / gate of every comparison of `count` stand-ins behind number `STAND_INS`; kept, since they take longer than a device."""
    reference = oracle.build(case)
    arrays, expected = batch_arrays(case, case.config["vocab_size"]), cache(lambda: ask(case, reference))
    for number in range(STAND_INS + 1, STAND_INS + 1 + count):
        yield from cached(case, arrays, ("stand-in", number), lambda number=number: {
            "shares": np.array([share(measure) for measure in measures(case, reference, expected(), number)])})["shares"].tolist()


@dataclass(frozen=True)
class Evidence:
    """How often stand-ins miss. shares: one list of error / gate for each case; count: of stand-ins."""

    shares: list[list[float]]
    count: int

    def __str__(self) -> str:
        found = [share for case in self.shares for share in case]
        missed = sum(share > 1 for share in found)
        return (f"{missed} of {len(found)} comparisons ({missed / len(found):.1%}), in {sum(max(case) > 1 for case in self.shares)} of "
                f"{len(self.shares)} variants, by up to {max(found):.1f} times")


def evidence(names: list[str], seed: int | None, count: int = COUNT, show=None) -> Evidence:
    """Over the cases of those model types; seed None: the token ids chosen for each case. show: called with a line for each case."""
    cases, found = [case for name in names for case in cases_of(name)], []
    for case in cases:
        found.append(list(shares(case if seed is None else replace(case, seed=seed), count)))
        if show:
            show(f"{case.model_type}: {case.name}: {sum(s > 1 for s in found[-1])} of {len(found[-1])} missed, worst {max(found[-1]):.2f}")
    return Evidence(found, count)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.parity.spread")
    parser.add_argument("names", nargs="*", default=sorted(CASES), help="model types; by default the five that have cases of their own")
    parser.add_argument("--seed", type=int, help="of the token ids of all cases")
    parser.add_argument("--stand-ins", type=int, default=COUNT, dest="count", metavar="N")
    options = parser.parse_args()
    if options.count < 1:
        raise UserError(f"--stand-ins {options.count}: at least 1 is needed")
    found = evidence(checked(options.names), options.seed, options.count, partial(print, flush=True))
    print(f"PyTorch's stand-ins miss in {found}")


if __name__ == "__main__":
    exit_with(main)
