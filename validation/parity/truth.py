"""The truth without Transformers: a case in float64 with the NumPy twins, and AdamW as PyTorch defines it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from hierarchos.graph.ops.leaf import Constant
from hierarchos.models.family import Model
from hierarchos.nn import attention
from hierarchos.nn.rotary import inverse_frequencies
from validation.parity.engine import RATE, NumpyEngine, without_gradient
from validation.parity.gates import SETTINGS

FIRM = 1e-4             # as `oracle.FIRM`, which imports torch
BETAS = 0.9, 0.999


@dataclass
class Exact:
    """`expected.Truth`."""

    logits: np.ndarray
    loss: np.ndarray
    gradients: dict[str, np.ndarray | None]
    after: dict[tuple, dict[str, np.ndarray]] = field(default_factory=dict)
    firm: dict[tuple, dict[str, np.ndarray]] = field(default_factory=dict)


def exact_results(model: Model, values: dict, arrays: dict) -> Exact:
    """All that a case is compared with."""
    with exact_rotations():
        engine = NumpyEngine("float64")
        engine.prepare(model, values, arrays)
        absent = without_gradient(model, *arrays["ids"].shape)
        loss, gradients = engine.gradients()
        found = Exact(engine.logits(), np.array(loss), {name: None if name in absent else g for name, g in gradients.items()})
        for setting in SETTINGS:
            found.after[setting], found.firm[setting] = train(engine, absent, *setting)
    return found


def train(engine: NumpyEngine, absent: set[str], steps: int, eps: float, decay: float) -> tuple[dict, dict]:
    """Parameters after AdamW steps, and which elements' gradients stayed above `FIRM` of their tensor's largest."""
    engine.load()
    names = [name for name in engine.values if name not in absent]
    first, second = ({name: np.zeros(engine.values[name].shape) for name in names} for _ in range(2))
    firm = {name: np.ones(value.shape, bool) for name, value in engine.values.items()}
    for step in range(1, steps + 1):
        _, gradients = engine.gradients()
        for name in names:
            g, p = gradients[name], engine.memory[name]
            firm[name] &= np.abs(g) > FIRM * np.abs(g).max()
            first[name] += (1 - BETAS[0]) * (g - first[name])
            second[name] = BETAS[1] * second[name] + (1 - BETAS[1]) * g * g
            root = np.sqrt(second[name]) / np.sqrt(1 - BETAS[1] ** step) + eps
            p[...] = p * (1 - RATE * decay) - RATE / (1 - BETAS[0] ** step) * first[name] / root
    return {name: engine.memory[name].copy() for name in engine.values}, firm


@contextmanager
def exact_rotations() -> Iterator[None]:
    """Cosines and sines in float64, as the oracle takes them: our programs hold them in float32."""
    exact: dict[str, np.ndarray] = {}
    tables, reference = attention._signed_tables, Constant.reference

    def remembered(rope, batch, length=None):
        positions = batch.max_positions
        frequencies = inverse_frequencies(rope, positions if length is None else length)
        angles = (np.arange(positions, dtype=np.float32)[:, None] * frequencies[None, :]).astype(np.float64)
        rounded = tables(rope, batch, length)
        for table, wide in zip(rounded, (np.cos(angles), rope.sign * np.sin(angles)), strict=True):
            exact[sha256(np.ascontiguousarray(table, np.float32).tobytes()).hexdigest()] = wide * rope.scaling.amplitude
        return rounded

    def read(self, inputs):
        return [exact[self.digest].reshape(self.spec.shape)] if self.digest in exact else reference(self, inputs)

    attention._signed_tables, Constant.reference = remembered, read
    try:
        yield
    finally:
        attention._signed_tables, Constant.reference = tables, reference
