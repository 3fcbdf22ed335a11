"""How far our gradients are from float64, as a multiple of how far PyTorch's float32 is.

    python -m validation.gradient_error [NAMES] [--case PART] [--device D] [--tensors]

For each variant of the parity harness: the root mean square error of the logits and of each gradient over PyTorch's own (below 1: closer to
float64 than PyTorch), as the geometric mean over the tensors and the worst of them. One tensor's ratio is partly luck; the mean is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from hierarchos.models.registry import resolve
from validation.command import exit_with
from validation.parity import oracle
from validation.parity.cases import Case, batch_arrays, cases_of, names
from validation.parity.engine import open_engine
from validation.parity.results import results

MEASURABLE = 1e-12          # PyTorch's error below which a ratio says nothing


def ratios(case: Case, engine) -> Iterator[tuple[str, float]]:
    """Name and ratio of the logits and of each gradient that has one."""
    reference = oracle.build(case)
    raw, values = reference.config.to_dict(), oracle.values_of(reference)
    arrays = batch_arrays(case, raw["vocab_size"])
    truth, single = (results(case, arrays, double) for double in (True, False))
    engine.prepare(resolve(raw), values, arrays)
    real, found = arrays["segments"] > 0, engine.gradients()[1]
    triples = [("logits", engine.logits()[real], single.logits[real], truth.logits[real])]
    triples += [(name, found[name], single.gradients[name], exact) for name, exact in truth.gradients.items() if exact is not None]
    for name, ours, theirs, exact in triples:
        if rms(theirs - exact) > MEASURABLE:
            yield name, rms(ours - exact) / rms(theirs - exact)


def rms(array: np.ndarray) -> float:
    """Root mean square."""
    return float(np.sqrt(np.mean(np.square(np.asarray(array, np.float64)))))


def mean(found: list[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(np.maximum(found, 1e-3)))))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.gradient_error")
    parser.add_argument("names", nargs="*", help="model types; all by default")
    parser.add_argument("--case", default="", help="only variants whose name contains this")
    parser.add_argument("--device", default="auto", help="auto, a number, part of a name, or numpy")
    parser.add_argument("--tensors", action="store_true", help="a line for each tensor as well")
    options, engine, every = parser.parse_args(), None, []
    engine = open_engine(options.device)
    for case in (case for name in options.names or names() for case in cases_of(name) if options.case in case.name):
        found = dict(ratios(case, engine))
        gradients = {name: ratio for name, ratio in found.items() if name != "logits"}
        worst = max(gradients, key=gradients.get)
        every.append(mean(list(gradients.values())))
        print(f"{case.model_type}: {case.name}: logits {found['logits']:.2f}, gradients {every[-1]:.2f}, "
              f"worst {gradients[worst]:.2f} ({worst})", flush=True)
        for name, ratio in found.items() if options.tensors else ():
            print(f"    {ratio:5.2f} {name}")
    print(f"{len(every)} variants: gradients {mean(every):.2f}, from {min(every):.2f} to {max(every):.2f}")
    return 0


if __name__ == "__main__":
    exit_with(main)
