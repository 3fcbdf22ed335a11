"""How often PyTorch misses its own gate after runs with eps 1e-8: the evidence for choosing token ids (`seeds.py`).

    python -m validation.parity.spread [NAMES] [--seed S] [--orders N]

Each order of the same sums but the usual one is judged by the gate that the usual one sets, as a device would be if it were all that
PyTorch had to say. --seed takes the same token ids for all cases instead of those chosen for them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cache, partial

from validation.parity import oracle
from validation.parity.cases import CASES, Case, batch_arrays, cases_of
from validation.parity.gates import Noise
from validation.parity.results import NOISY, orders


def shares(usual: dict[str, Noise], other: dict[str, Noise]) -> list[float]:
    """error / gate of the usual order, of each parameter: root mean square and largest of the firm elements."""
    return [error / gate for name, noise in other.items()
            for error, gate in zip((noise.rms, noise.firm), usual[name].gates(), strict=True)]


def orders_of(case: Case, count: int):
    """The errors of PyTorch's orders, float64 computed where they are not kept from an earlier run."""
    arrays = batch_arrays(case, case.config["vocab_size"])
    return orders(case, arrays, count, cache(lambda: oracle.run(case, arrays, (NOISY,), double=True)))


def spread(case: Case, count: int) -> list[float]:
    """The shares of all orders but the usual."""
    usual, *others = orders_of(case, count)
    return [share for other in others for share in shares(usual, other)]


@dataclass(frozen=True)
class Evidence:
    """How often PyTorch's other orders miss the gate of its usual one. shares: one list of error / gate for each case."""

    shares: list[list[float]]

    def __str__(self) -> str:
        found = [share for case in self.shares for share in case]
        missed = sum(share > 1 for share in found)
        return (f"{missed} of {len(found)} comparisons ({missed / len(found):.1%}), in {sum(max(case) > 1 for case in self.shares)} of "
                f"{len(self.shares)} cases, by up to {max(found):.1f} times")


def evidence(names: list[str], seed: int | None, count: int = oracle.ORDERS, show=None) -> Evidence:
    """Over the cases of those model types; seed None: the token ids chosen for each case. show: called with a line for each case."""
    cases, found = [case for name in names for case in cases_of(name)], []
    for case in cases:
        found.append(spread(case if seed is None else replace(case, seed=seed), count))
        if show:
            show(f"{case.model_type}: {case.name}: {sum(s > 1 for s in found[-1])} of {len(found[-1])} missed, worst {max(found[-1]):.2f}")
    return Evidence(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.parity.spread")
    parser.add_argument("names", nargs="*", default=sorted(CASES), help="model types; by default the five that have cases of their own")
    parser.add_argument("--seed", type=int, help="of the token ids of all cases")
    parser.add_argument("--orders", type=int, default=oracle.ORDERS)
    options = parser.parse_args()
    found = evidence(options.names, options.seed, options.orders, partial(print, flush=True))
    print(f"PyTorch misses the gate of its usual order in {found}")


if __name__ == "__main__":
    main()
