"""Chooses token ids for the cases: where PyTorch's float32 agrees with itself, so that a gate judges us and not luck.

    python -m validation.parity.seeds [NAMES] [--check] [--jobs N]

The rule: of the seeds `CANDIDATES` the first where AdamW with eps 1e-8, in twelve orders of the same sums, reaches at most `ENOUGH` of
the gate which the usual order sets, where PyTorch's error after 2 steps is at most `SHORT_ERROR`, and where after 10 steps with
eps 1e-3 none of these orders passes the gate of the usual one (it does where an input of a ReLU comes so close to 0 that rounding
decides on its side). Where none does, the one with the smallest share, those that meet the other two first. Ours is never looked at.
Seeds go into seeds.json.

Rounding is that of PyTorch's version and of the processor, so that another machine may come to another first seed. --check therefore
measures the stored seeds alone: none may be further from its gate than `ENOUGH` and than what was stored, by more than `DRIFT`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from validation.parity import oracle
from validation.parity.cache import cached
from validation.parity.cases import CANDIDATES, ENOUGH, SEEDS, SHORT_ERROR, Case, batch_arrays, cases_of, names
from validation.parity.gates import SETTINGS, largest
from validation.parity.results import NOISY, orders
from validation.parity.spread import shares

DRIFT = 0.25              # of a gate, from one processor to another
TARGET = Path(__file__).with_name("seeds.json")
SHORT, LONG = SETTINGS[:2]


def own_share(case: Case, best: tuple[bool, float]) -> tuple[bool, float]:
    """(whether PyTorch's error after 2 steps is too large, or its orders part in 10; worst error / gate among its orders after the run
    with eps 1e-8). Ends early, with the worst so far, where that is neither enough nor below `best`."""
    arrays = batch_arrays(case, case.config["vocab_size"])
    truth = cache(lambda: oracle.run(case, arrays, (SHORT, LONG, NOISY), double=True))
    error = cached(case, arrays, ("error", SHORT), lambda: {"error": short_error(case, arrays, truth())})["error"]
    usual, worst, late = None, 0.0, bool(error > SHORT_ERROR)
    for noises in orders(case, arrays, oracle.ORDERS, truth):
        usual = usual or noises
        if noises is not usual:
            worst = max(worst, *shares(usual, noises))
        if (late, worst) > max(best, (False, ENOUGH)):
            return late, worst
    parts = cached(case, arrays, ("parts", LONG), lambda: {"share": np.array(long_share(case, arrays, truth()))})["share"]
    return bool(late or parts > 1), worst


def short_error(case: Case, arrays: dict, truth: oracle.Results) -> np.ndarray:
    """PyTorch's largest error after 2 steps."""
    single = oracle.run(case, arrays, (SHORT,), double=False)
    return np.array(max(np.abs(single.after[SHORT][name] - expected).max() for name, expected in truth.after[SHORT].items()))


def long_share(case: Case, arrays: dict, truth: oracle.Results) -> float:
    """Largest error / gate of PyTorch's other orders after 10 steps with eps 1e-3, by the gate that the usual order sets."""
    runs, expected = oracle.Orders(case, arrays, LONG), truth.after[LONG]
    usual = runs.after(0)
    gates = {name: largest(usual[name], value, float(np.abs(usual[name] - value).max())).gate for name, value in expected.items()}
    return max(float(np.abs(after[name] - value).max()) / gates[name]
               for after in map(runs.after, range(1, oracle.ORDERS)) for name, value in expected.items())


def choose(case: Case) -> dict:
    """What the rule gives for a case."""
    best, chosen = (True, float("inf")), CANDIDATES[0]
    for seed in CANDIDATES:
        found = own_share(replace(case, seed=seed), best)
        if found < best:
            best, chosen = found, seed
        if best <= (False, ENOUGH):
            break
    return {"seed": chosen, "share": round(best[1], 2)}


def chosen(key: tuple[str, str]) -> dict:
    """What the rule gives for a case, by its model type and name."""
    return choose(next(case for case in cases_of(key[0]) if case.name == key[1]))


def measured(key: tuple[str, str]) -> dict:
    """What the stored seed of a case comes to here."""
    case = next(case for case in cases_of(key[0]) if case.name == key[1])
    late, worst = own_share(case, (True, float("inf")))
    return {"seed": case.seed, "share": float("inf") if late else round(worst, 2)}


def agrees(stored: dict | None, found: dict, check: bool) -> bool:
    """Whether the stored entry is what was found: the rule's choice, or near enough with --check."""
    if stored is None or not check:
        return stored is not None and stored["seed"] == found["seed"]
    return found["share"] <= max(ENOUGH, stored["share"]) + DRIFT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.parity.seeds")
    parser.add_argument("names", nargs="*", default=names(), help="model types; by default all that have cases")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where the rule would not take a stored seed")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that share the cases")
    options, different = parser.parse_args(), 0
    keys = [(name, case.name) for name in options.names for case in cases_of(name)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for (name, case), found in zip(keys, pool.imap(measured if options.check else chosen, keys), strict=True):
            stored = SEEDS.get(name, {}).get(case)
            same = agrees(stored, found, options.check)
            different += not same
            print(f"{name}: {case}: seed {found['seed']}, share {found['share']}{'' if same else f'; stored: {stored}'}", flush=True)
            if not options.check:
                write(name, case, found)
    print(f"{different} seeds differ from the stored ones", file=sys.stderr)
    return 1 if different and options.check else 0


def write(name: str, case: str, found: dict) -> None:
    """Puts a case's entry into the file, the families in the order of `names`."""
    stored = json.loads(TARGET.read_text(encoding="utf-8"))
    stored.setdefault(name, {})[case] = found
    ordered = {family: stored[family] for family in names() if family in stored}
    partial = TARGET.with_suffix(".partial")
    partial.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    partial.replace(TARGET)


if __name__ == "__main__":
    sys.exit(main())
