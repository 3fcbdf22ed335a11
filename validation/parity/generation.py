"""Logits of tokens that come one at a time, over the cache, beside those of the whole text so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from validation.parity.gates import Measure, largest

STEPS = 4               # tokens that each row gets behind its prompt
AGREEMENT = 1e-6        # of s = max(1, largest |logit|)
GENERATED = "cached logits, {step} tokens behind the prompt"


def generated(engine, model, arrays: dict, reference: float) -> Iterator[tuple[str, Measure]]:
    """For decoders, on engines that can generate: max |cached - whole| after the prompt and each step, at most 1e-6 s (docs/generation.md
    says why not 2e-7), and never more than twice the gate of logits. reference: PyTorch's largest error in the logits of the case."""
    if model.task == "causal" and hasattr(engine, "session") and comparable(arrays):
        for step, (cached, whole) in enumerate(pairs(engine, arrays)):
            yield GENERATED.format(step=step), agreement(cached, whole, reference)


def comparable(arrays: dict) -> bool:
    """Not documents packed in a row, nor rows of a few tokens."""
    return arrays["segments"].max() == 1 and min((arrays["segments"] > 0).sum(1)) > STEPS


def pairs(engine, arrays: dict) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Logits [rows, V] over the cache and of the whole text, after the prompts and after each step. Every row is its own tokens without
    the padding, so prompts have different lengths."""
    rows = [ids[segments > 0].tolist() for ids, segments in zip(arrays["ids"], arrays["segments"], strict=True)]
    with engine.session(len(rows), max(map(len, rows))) as session:
        for step in range(STEPS + 1):
            new = [row[:len(row) - STEPS] if step == 0 else [row[len(row) - STEPS + step - 1]] for row in rows]
            yield session.extend(new), whole_texts(engine, arrays, [len(row) - STEPS + step for row in rows])


def agreement(cached: np.ndarray, whole: np.ndarray, reference: float) -> Measure:
    """Of two results in float32, each of which may be as far from the truth as the gate of logits, on either side."""
    measure = largest(cached, whole, reference)
    return replace(measure, gate=min(2 * measure.gate, AGREEMENT * max(1.0, float(np.abs(whole).max()))))


def whole_texts(engine, arrays: dict, lengths: list[int]) -> np.ndarray:
    """Logits [rows, V] of the last token, where each row ends after `lengths` tokens: the rest becomes padding on the right."""
    kept = (arrays["segments"] > 0) & (np.cumsum(arrays["segments"] > 0, axis=1) <= np.array(lengths)[:, None])
    cut = {name: np.where(kept, arrays[name], 0).astype(np.int32) for name in ("ids", "positions", "segments")}
    last = kept.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1)
    return np.asarray(engine.logits(cut), np.float64)[np.arange(len(last)), last]
