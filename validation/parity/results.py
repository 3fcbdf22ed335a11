"""What the oracle says of a case, in both precisions, kept between runs."""

from __future__ import annotations

import numpy as np

from validation.parity import oracle
from validation.parity.cache import cached
from validation.parity.cases import Case
from validation.parity.gates import SETTINGS


def results(case: Case, arrays: dict, double: bool) -> oracle.Results:
    """All that is compared, in one precision."""
    return unflatten(cached(case, arrays, ("results", double, SETTINGS), lambda: flatten(computed(case, arrays, double), double)))


def computed(case: Case, arrays: dict, double: bool) -> oracle.Results:
    """The same, not kept."""
    return oracle.run(case, arrays, SETTINGS, double)


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


def unflatten(flat: dict[str, np.ndarray], settings=SETTINGS) -> oracle.Results:
    """The reverse: everything but `firm` in float64; parameters without a gradient have an empty one."""
    flat = {path: array if array.dtype == bool else array.astype(np.float64) for path, array in flat.items()}
    gradients = {name: array if array.size else None for name, array in below(flat, "gradient/").items()}
    after, firm = ({setting: below(flat, f"{kind}/{index}/") for index, setting in enumerate(settings)} for kind in ("after", "firm"))
    return oracle.Results(flat["logits"], flat["loss"], gradients, after, firm)


def below(flat: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {path.removeprefix(prefix): array for path, array in flat.items() if path.startswith(prefix)}
