"""Chooses token ids for the cases: where PyTorch's float32 agrees with itself, so that a gate judges us and not luck.

    python -m validation.parity.seeds [NAMES] [--tries N]

For each seed it runs AdamW with eps 1e-8 in several orders of the same sums and prints the worst share (error / gate) that an order
reaches of the gate which the usual order sets; and PyTorch's error after 2 steps. Ours is never looked at. Seeds go into seeds.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from validation.parity import oracle
from validation.parity.cases import SEEDS, Case, batch_arrays, cases_of, names
from validation.parity.gates import SETTINGS, after_steps

TARGET = Path(__file__).with_name("seeds.json")
SHORT_ERROR = 1.2e-7      # of PyTorch after 2 steps; the gate of 2e-7 rests on it


def own_share(case: Case) -> tuple[float, float]:
    """(worst error / gate among PyTorch's orders, PyTorch's largest error after 2 steps)."""
    arrays = batch_arrays(case, case.config["vocab_size"])
    noisy, short = SETTINGS[2], SETTINGS[0]
    truth, single = (oracle.run(case, arrays, [short, *([noisy] if double else [])], double) for double in (True, False))
    usual, *others = oracle.realisations(case, arrays, noisy)
    shares = [measure.error / measure.gate for other in others for name, expected in truth.after[noisy].items()
              for _, measure in after_steps(noisy, other[name], expected, [usual[name]], truth.firm[noisy][name])]
    errors = [np.abs(single.after[short][name] - expected).max() for name, expected in truth.after[short].items()]
    return max(shares), float(max(errors))


def best_seed(case: Case, tries: int, enough: float) -> dict:
    """The seed with the smallest share whose error after 2 steps is small; the first that is good enough ends the search."""
    found = []
    for seed in range(3, 3 + tries):
        share, error = own_share(replace(case, seed=seed))
        print(f"{case.model_type}: {case.name}: seed {seed}: PyTorch against itself {share:.2f}, after 2 steps {error:.2e}", flush=True)
        found.append((error > SHORT_ERROR, share, seed))
        if min(found)[:2] <= (False, enough):
            break
    _, share, seed = min(found)
    return {"seed": seed, "share": round(share, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.parity.seeds")
    parser.add_argument("names", nargs="*", help="model types; those without seeds by default")
    parser.add_argument("--tries", type=int, default=8)
    parser.add_argument("--enough", type=float, default=0.8, help="stop at the first seed whose share is at most this")
    options = parser.parse_args()
    for name in options.names or [name for name in names() if name not in SEEDS]:
        SEEDS[name] = {case.name: best_seed(case, options.tries, options.enough) for case in cases_of(name)}
        TARGET.write_text(json.dumps(SEEDS, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
