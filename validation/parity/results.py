"""What the oracle says of a case, kept between runs: results in both precisions, and the errors of PyTorch's orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from validation.parity import oracle
from validation.parity.cache import cached
from validation.parity.cases import Case
from validation.parity.gates import NOISY, SETTINGS, Noise, noise


def results(case: Case, arrays: dict, double: bool) -> oracle.Results:
    """All that is compared, in one precision. float32 after the noisy run comes from `orders`, so it is not in there."""
    settings = SETTINGS if double else SETTINGS[:2]
    flat = cached(case, arrays, ("results", double, settings), lambda: flatten(oracle.run(case, arrays, settings, double), double))
    return unflatten(flat, settings)


def orders(case: Case, arrays: dict, count: int, truth: Callable[[], oracle.Results]) -> Iterator[dict[str, Noise]]:
    """Errors of float32 PyTorch after the noisy run, by parameter, one order of the sums after another; 0 is the usual one.

    truth: gives the float64 results; called where an order was not run yet."""
    runs = oracle.Orders(case, arrays, NOISY)
    for number in range(count):
        found = cached(case, arrays, ("order", NOISY, number), lambda number=number: order(runs.after(number), truth()))
        yield {name: Noise(float(rms), float(firm), float(scale))
               for name, rms, firm, scale in zip(found["names"].tolist(), found["rms"], found["firm"], found["scale"], strict=True)}


def order(after: dict[str, np.ndarray], truth: oracle.Results) -> dict[str, np.ndarray]:
    """The errors of one order as arrays."""
    expected, firm = truth.after[NOISY], truth.firm[NOISY]
    noises = [noise(after[name], expected[name], firm[name]) for name in expected]
    return {"names": np.array(list(expected)), "rms": np.array([n.rms for n in noises]), "firm": np.array([n.firm for n in noises]),
            "scale": np.array([n.scale for n in noises])}


def flatten(found: oracle.Results, double: bool) -> dict[str, np.ndarray]:
    """Arrays by path; float32 results are stored as such."""
    flat = {"logits": found.logits, "loss": found.loss}
    flat |= {f"gradient/{name}": np.zeros(0) if array is None else array for name, array in found.gradients.items()}
    for index, setting in enumerate(found.after):
        flat |= {f"after/{index}/{name}": array for name, array in found.after[setting].items()}
    if not double:
        return {path: array.astype(np.float32) for path, array in flat.items()}
    for index, setting in enumerate(found.firm):
        flat |= {f"firm/{index}/{name}": array for name, array in found.firm[setting].items()}
    return flat


def unflatten(flat: dict[str, np.ndarray], settings) -> oracle.Results:
    """The reverse: everything but `firm` in float64; parameters without a gradient have an empty one."""
    flat = {path: array if array.dtype == bool else array.astype(np.float64) for path, array in flat.items()}
    gradients = {name: array if array.size else None for name, array in below(flat, "gradient/").items()}
    after, firm = ({setting: below(flat, f"{kind}/{index}/") for index, setting in enumerate(settings)} for kind in ("after", "firm"))
    return oracle.Results(flat["logits"], flat["loss"], gradients, after, firm)


def below(flat: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {path.removeprefix(prefix): array for path, array in flat.items() if path.startswith(prefix)}
