"""How far logits over a cache are from those of the whole text, in s = max(1, largest |logit|), here and in PyTorch itself.

    python -m validation.cached_logits [MODEL_TYPES] [--device D] [--json] [--no-pytorch]

For every decoder variant of the parity harness: the prompt and each of four tokens behind it. "pieces": the whole text is read by a fresh
session too, in pieces of eight tokens, instead of the compiled forward graph (first row; on CPU drivers the bits are equal). PyTorch:
Transformers in float32 with its own cache, row by row without padding, on the same tokens. Development only; nothing passes or fails here.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

import numpy as np

from hierarchos.generation import session as session_module
from hierarchos.kernels.gemv import MOST_ROWS
from hierarchos.models.registry import resolve
from validation.command import exit_with
from validation.parity.cases import Case, batch_arrays, cases_of, names
from validation.parity.engine import open_engine
from validation.parity.generation import STEPS, comparable, pairs

GATE = 2e-7          # what is asked of each step


def shares(found: Iterator[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """max |cached - whole| / s of each step."""
    return [float(np.abs(np.asarray(cached, np.float64) - whole).max() / max(1.0, np.abs(whole).max())) for cached, whole in found]


def in_pieces(engine, row: list[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Logits [1, V] of one row after each single token, and of a session that reads as much of it in pieces of MOST_ROWS tokens."""
    chunks, session_module.CHUNKS = session_module.CHUNKS, (1, MOST_ROWS)
    start = len(row) - STEPS
    with engine.session(1, len(row)) as session:
        session.extend([row[:start]])
        single = [session.extend([[token]]) for token in row[start:]]
        for step, logits in enumerate(single, start=1):
            session.reset()
            yield logits, session.extend([row[:start + step]])
    session_module.CHUNKS = chunks


def in_pytorch(base, rows: list[list[int]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Transformers' own logits over its cache and of the whole text, of the last token of each step: all rows together."""
    import torch

    with torch.no_grad():
        steps = [one_row(base, torch.tensor([row])) for row in rows]
    for step in zip(*steps, strict=True):
        yield np.concatenate([cached for cached, _ in step]), np.concatenate([whole for _, whole in step])


def one_row(base, ids) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of one row [1, T]: prompt and steps."""
    found, held = [], None
    for step in range(STEPS + 1):
        end = ids.shape[1] - STEPS + step
        new = ids[:, :end] if held is None else ids[:, end - 1:end]
        output = base(input_ids=new, past_key_values=held, use_cache=True)
        held = output.past_key_values
        whole = base(input_ids=ids[:, :end], use_cache=False).logits[:, -1]
        found.append((output.logits[:, -1].numpy(), whole.numpy()))
    return found


def measure(case: Case, engine, pytorch: bool) -> dict | None:
    """Largest share of a case, ours, in pieces and PyTorch's; None for what generates nothing."""
    from validation.parity.oracle import build, values_of

    base = build(case)
    raw = base.config.to_dict()
    model, arrays = resolve(raw), batch_arrays(case, raw["vocab_size"])
    if model.task != "causal" or not comparable(arrays):
        return None
    rows = [ids[segments > 0].tolist() for ids, segments in zip(arrays["ids"], arrays["segments"], strict=True)]
    engine.prepare(model, values_of(base), arrays)
    ours, pieces = shares(pairs(engine, arrays)), shares(in_pieces(engine, rows[0]))
    try:
        theirs = shares(in_pytorch(base.float().eval(), rows)) if pytorch else [float("nan")]
    except Exception as error:                       # some models of the reference have no cache, or none of this kind
        theirs = [float("nan")]
        print(f"{case.model_type}: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
    return {"model_type": case.model_type, "variant": case.name, "ours": max(ours), "pieces": max(pieces), "pytorch": max(theirs)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.cached_logits", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="model types; all by default")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-pytorch", action="store_true", help="without the measure of Transformers")
    options = parser.parse_args()
    engine, found = open_engine(options.device), []
    for case in [case for name in options.names or names() for case in cases_of(name)]:
        if (record := measure(case, engine, not options.no_pytorch)) is not None:
            found.append(record)
            told = "  ".join(f"{name} {record[name]:.2g}" for name in ("ours", "pieces", "pytorch"))
            print(f"{record['model_type']:18} {record['variant']:40} {told}", flush=True, file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps(found, indent=1))
    report(found)
    return 0


def report(found: list[dict]) -> None:
    """How many variants stay within the gate."""
    for who in ("ours", "pieces", "pytorch"):
        values = [record[who] for record in found if np.isfinite(record[who])]
        within = sum(value <= GATE for value in values)
        print(f"{who}: {within} of {len(values)} variants within {GATE:g} s; largest {max(values, default=0):.2g}, "
              f"median {np.median(values) if values else 0:.2g}", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)
