"""Token ids at which float32 cannot tell on which side of a kink it is.

The derivative of relu jumps at 0, that of a clamp at its bounds. Where an input comes closer to the jump than float32 knows it, the
gradient of either side is right, and a gate between them would judge luck. Squared relu has no jump."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from validation.parity import oracle
from validation.parity.cases import CLEAR, Case, batch_arrays
from validation.parity.gates import NOISY


class KinkedInputs(TorchFunctionMode):
    """Inputs of functions with kinks, in the order of the calls: float64 array and the places of the kinks."""

    def __init__(self, double: bool):
        super().__init__()
        self.seen: list[tuple[np.ndarray, list[float]]] = []
        self.last, self.stay = None, oracle.StayDouble() if double else None

    def __enter__(self):
        self.stack = ExitStack()
        if self.stay:
            self.stack.enter_context(self.stay)
        return super().__enter__()

    def __exit__(self, *raised):
        super().__exit__(*raised)
        self.stack.close()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name, first = getattr(func, "__name__", ""), args[0] if args else None
        if first is self.last and first is not None and is_smooth(name, args):
            self.seen.pop()
        self.last = None
        places = kinks_of(name.rstrip("_"), args, kwargs)
        if places and isinstance(first, torch.Tensor) and first.requires_grad:
            self.seen.append((oracle.array_of(first), places))
            self.last = func(*args, **kwargs)
            return self.last
        return func(*args, **kwargs)


def kinks_of(name: str, args: tuple, kwargs: dict) -> list[float]:
    """Where the derivative of a function jumps."""
    if name == "relu":
        return [0.0]
    if name == "clamp":
        bounds = (kwargs.get(key, args[i] if len(args) > i else None) for i, key in ((1, "min"), (2, "max")))
        return [float(bound) for bound in bounds if bound is not None]
    return []


def is_smooth(name: str, args: tuple) -> bool:
    """Whether a function of a relu's result, its first argument, has no jump: the square and higher powers."""
    return name == "square" or (name == "pow" and args[1] > 1) or (name in ("mul", "__mul__") and args[1] is args[0])


def kinked_inputs(case: Case, arrays: dict, double: bool, steps: int) -> list[tuple[np.ndarray, list[float]]]:
    """Of so many steps of the run with eps 1e-8."""
    model = oracle.build(case)
    model = oracle.precise(model) if double else model
    mode = KinkedInputs(double)
    oracle.train(model, oracle.inputs_of(case, model, arrays), steps, *NOISY[1:], mode=mode, watch=False)
    return mode.seen


def clear_of_kinks(case: Case, share: float = 1.0) -> bool:
    """Whether every input keeps `share` of `CLEAR` away from each kink, throughout the run with eps 1e-8."""
    arrays = batch_arrays(case, case.config["vocab_size"])
    if not kinked_inputs(case, arrays, False, 1):
        return True
    exact, single = (kinked_inputs(case, arrays, double, NOISY[0]) for double in (True, False))
    return all(distance(x, places) >= share * CLEAR * float(np.sqrt(np.mean(np.square(y - x))))
               for (x, places), (y, _) in zip(exact, single, strict=True))


def distance(x: np.ndarray, places: list[float]) -> float:
    """Of the nearest element to one of the places."""
    return min(float(np.abs(x - place).min()) for place in places)
