"""Logits of tokens that come one at a time, over the cache, beside those of the whole text so far in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from validation.parity.engine import NAMES, NumpyEngine, logits_graph
from validation.parity.expected import Expected
from validation.parity.gates import Measure, largest
from validation.parity.truth import exact_rotations

STEPS = 4               # tokens that each row gets behind its prompt
GENERATED = "cached logits, {step} tokens behind the prompt"


def generated(engine, model, expected: Expected) -> Iterator[tuple[str, Measure]]:
    """For decoders, on engines that can generate: the cached logits after the prompt and each step, by the gate of logits. The truth is the
    whole text so far in one run of the NumPy twins in float64 (`portable.py` compares those with Transformers)."""
    if model.task == "causal" and hasattr(engine, "session") and comparable(expected.arrays):
        engine.state.load(expected.values)                  # the runs of AdamW have changed them
        exact = ExactEngine(model, expected)
        for step, (cached, whole) in enumerate(pairs(engine, expected.arrays, exact)):
            yield GENERATED.format(step=step), largest(cached, whole, expected.errors.logits)


class ExactEngine:
    """Logits of a batch in float64."""

    def __init__(self, model, expected: Expected):
        self.model, self.engine = model, NumpyEngine("float64")
        self.engine.prepare(model, expected.values, expected.arrays)

    def logits(self, arrays: dict) -> np.ndarray:
        with exact_rotations():
            graph = logits_graph(self.model, *arrays["ids"].shape)
            return self.engine.run(graph, {name: arrays[name] for name in NAMES})["logits"]


def comparable(arrays: dict) -> bool:
    """Not documents packed in a row, nor rows of a few tokens."""
    return arrays["segments"].max() == 1 and min((arrays["segments"] > 0).sum(1)) > STEPS


def pairs(engine, arrays: dict, whole=None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Logits [rows, V] over the cache and of the whole text (of engine `whole`, or the same), after the prompts and after each step. Every
    row is its own tokens without the padding, so prompts have different lengths."""
    rows = [ids[segments > 0].tolist() for ids, segments in zip(arrays["ids"], arrays["segments"], strict=True)]
    with engine.session(len(rows), max(map(len, rows))) as session:
        for step in range(STEPS + 1):
            new = [row[:len(row) - STEPS] if step == 0 else [row[len(row) - STEPS + step - 1]] for row in rows]
            yield session.extend(new), whole_texts(whole or engine, arrays, [len(row) - STEPS + step for row in rows])


def whole_texts(engine, arrays: dict, lengths: list[int]) -> np.ndarray:
    """Logits [rows, V] of the last token, where each row ends after `lengths` tokens: the rest becomes padding on the right."""
    kept = (arrays["segments"] > 0) & (np.cumsum(arrays["segments"] > 0, axis=1) <= np.array(lengths)[:, None])
    cut = {name: np.where(kept, arrays[name], 0).astype(np.int32) for name in ("ids", "positions", "segments")}
    last = kept.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1)
    return np.asarray(engine.logits(cut), np.float64)[np.arange(len(last)), last]
