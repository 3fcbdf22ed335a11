"""What golden_architectures.npz holds: each small variant of each architecture, with values and token ids that NumPy makes.

For a variant "NAME/VARIANT": `exact` (f64: sampled logits, loss), `rounded` (f32: a sample of each gradient, then of each parameter's
change in two AdamW steps; NaN where there is no gradient), `gates` (f32: of logits, loss, each gradient; 2e-7 s for parameters is not
stored), `seed` (of the token ids). Parameters are in the order of `Model.parameters`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hierarchos.models.registry import FAMILIES
from validation.parity.cases import Case
from validation.tiny import table, variants

FILE = Path(__file__).with_name("golden_architectures.npz")
LENGTH = 21                 # of each row: longer than the windows of all variants
LOGITS, ELEMENTS = 256, 24          # sampled of all logits, of each parameter
SPREAD = 0.08               # of the values around where they start: every norm and bias bites, activations stay moderate


def golden_cases() -> list[Case]:
    """Every variant; every second one is padded on the left."""
    found = [tiny for name in sorted(FAMILIES) if name in table() for tiny in variants(name)]
    return [Case(tiny.model_type, tiny.name, tiny.config, 2, LENGTH, ("right", "left")[number % 2], tiny=tiny)
            for number, tiny in enumerate(found)]


def key(case: Case) -> str:
    return f"{case.model_type}/{case.name}"


def golden_values(model) -> dict[str, np.ndarray]:
    """float32 values of all parameters: noise around what training would start from."""
    from hierarchos.nn.initialise import initial_value

    generator, found = np.random.default_rng(17), {}
    for spec in model.parameters:
        start = initial_value(spec, 0) if not hasattr(spec.initial, "std") else 0.0
        found[spec.name] = (start + SPREAD * generator.standard_normal(spec.shape)).astype(np.float32)
    return found


def sample(array: np.ndarray, count: int) -> np.ndarray:
    """At most `count` elements, spread over all of it."""
    flat = np.asarray(array).ravel()
    return flat if flat.size <= count else flat[np.random.default_rng(flat.size).permutation(flat.size)[:count]]


@dataclass(frozen=True, eq=False)
class Golden:
    """A variant's numbers. gradients, changes: samples by parameter; gates: of each gradient. None: no gradient."""

    seed: int
    logits: np.ndarray
    loss: float
    logits_gate: float
    loss_gate: float
    gradients: dict[str, np.ndarray | None]
    changes: dict[str, np.ndarray]
    gates: dict[str, float]

    def packed(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays of the file."""
        blank = {name: np.full(change.size, np.nan) for name, change in self.changes.items()}
        gradients = [blank[name] if gradient is None else gradient for name, gradient in self.gradients.items()]
        return {f"{prefix}/seed": np.array(self.seed), f"{prefix}/exact": np.append(self.logits, self.loss),
                f"{prefix}/rounded": np.concatenate([*gradients, *self.changes.values()]).astype(np.float32),
                f"{prefix}/gates": np.array([self.logits_gate, self.loss_gate, *self.gates.values()], np.float32)}

    @classmethod
    def unpacked(cls, file, prefix: str, model) -> Golden:
        """The reverse. file: arrays by name."""
        exact, gates, rounded = (file[f"{prefix}/{part}"] for part in ("exact", "gates", "rounded"))
        specs = model.parameters
        parts = np.split(rounded, np.cumsum([min(spec.size, ELEMENTS) for spec in (*specs, *specs)])[:-1])
        names = [spec.name for spec in specs]
        gradients = {name: None if np.isnan(part).any() else part for name, part in zip(names, parts[:len(names)], strict=True)}
        return cls(int(file[f"{prefix}/seed"]), exact[:-1], float(exact[-1]), *map(float, gates[:2]), gradients,
                   dict(zip(names, parts[len(names):], strict=True)), dict(zip(names, map(float, gates[2:]), strict=True)))
