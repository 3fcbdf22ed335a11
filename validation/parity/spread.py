"""How often PyTorch misses its own gate: the evidence for judging runs with eps 1e-8 by several orders of PyTorch.

    python -m validation.parity.spread [NAMES] [--seed S] [--orders N]

Each order of the same sums but the usual one is judged by the gate that the usual one sets, as a device would be if it were all that
PyTorch had to say. --seed takes the same token ids for all cases instead of those chosen for them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import cache

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.parity.spread")
    parser.add_argument("names", nargs="*", default=sorted(CASES), help="model types; by default the five that have cases of their own")
    parser.add_argument("--seed", type=int, help="of the token ids of all cases")
    parser.add_argument("--orders", type=int, default=oracle.ORDERS)
    options = parser.parse_args()
    found = []
    for case in (case for name in options.names for case in cases_of(name)):
        if not case.tiny:
            found.append(spread(case if options.seed is None else replace(case, seed=options.seed), options.orders))
            print(f"{case.model_type}: {case.name}: {sum(s > 1 for s in found[-1])} of {len(found[-1])} missed, worst {max(found[-1]):.2f}",
                  flush=True)
    everything = [share for case in found for share in case]
    missed = sum(share > 1 for share in everything)
    print(f"PyTorch misses the gate of its usual order in {missed} of {len(everything)} comparisons ({missed / len(everything):.1%}), "
          f"in {sum(max(case) > 1 for case in found)} of {len(found)} cases, by up to {max(everything):.1f} times")


if __name__ == "__main__":
    main()
