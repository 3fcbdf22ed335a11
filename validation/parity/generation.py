"""Logits of tokens that come one at a time, over the cache, beside those of the whole text so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from validation.parity.gates import Measure, largest

STEPS = 4               # tokens that each row gets behind its prompt
GENERATED = "cached logits, {step} tokens behind the prompt"


def generated(engine, model, arrays: dict, reference: float) -> Iterator[tuple[str, Measure]]:
    """For decoders, on engines that can generate: max |cached - whole| after the prompt and each step, by twice the gate of logits.

    Both are ours in float32, and each may be as far from the truth as that gate, on either side. Every row is its own tokens without the
    padding, so prompts have different lengths. reference: PyTorch's largest error in the logits of the case."""
    if model.task != "causal" or not hasattr(engine, "session"):
        return
    rows = [ids[segments > 0].tolist() for ids, segments in zip(arrays["ids"], arrays["segments"], strict=True)]
    if arrays["segments"].max() > 1 or min(map(len, rows)) <= STEPS:                  # documents packed in a row; rows of a few tokens
        return
    with engine.session(len(rows), max(map(len, rows))) as session:
        for step in range(STEPS + 1):
            new = [row[:len(row) - STEPS] if step == 0 else [row[len(row) - STEPS + step - 1]] for row in rows]
            cached, whole = session.extend(new), whole_texts(engine, arrays, [len(row) - STEPS + step for row in rows])
            yield GENERATED.format(step=step), within_two(largest(cached, whole, reference))


def within_two(measure: Measure) -> Measure:
    """With the gate of a difference between two results, each of which has the given one."""
    return replace(measure, gate=2 * measure.gate)


def whole_texts(engine, arrays: dict, lengths: list[int]) -> np.ndarray:
    """Logits [rows, V] of the last token, where each row ends after `lengths` tokens: the rest becomes padding on the right."""
    kept = (arrays["segments"] > 0) & (np.cumsum(arrays["segments"] > 0, axis=1) <= np.array(lengths)[:, None])
    cut = {name: np.where(kept, arrays[name], 0).astype(np.int32) for name in ("ids", "positions", "segments")}
    last = kept.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1)
    return np.asarray(engine.logits(cut), np.float64)[np.arange(len(last)), last]
