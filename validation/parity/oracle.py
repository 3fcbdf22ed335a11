"""Transformers as the oracle, in float64 and in float32.

A float64 model of the reference still computes norms, softmax and loss in float32, because its code says so. `StayDouble` keeps them
in float64, so that the truth is one. Rotary angles stay float32 products, which is their definition; their cosines are exact.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from validation.names import named_parameters
from validation.parity.cases import Case

CONVERSIONS = (torch.Tensor.to, torch.Tensor.type)
SOFTMAX = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)
LARGEST = torch.finfo(torch.float32).max
CIRCULAR = (torch.Tensor.cos, torch.Tensor.sin, torch.cos, torch.sin)
disable_progress_bar()
set_verbosity_error()
torch.set_num_threads(1)      # the same sums everywhere; two were 4 to 15 times slower on two busy cores

FIRM = 1e-4     # share of the largest gradient of its tensor that an element's must keep (design.md, decision 10)


class StayDouble(TorchFunctionMode):
    """float64 tensors are not narrowed to float32, and cosines of float32 angles are taken in float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if args and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float64:
            if func is torch.Tensor.float:
                return args[0]
            if func in CONVERSIONS:
                args = tuple(torch.float64 if value is torch.float32 else value for value in args)
            if func in CONVERSIONS + SOFTMAX and kwargs.get("dtype") is torch.float32:
                kwargs["dtype"] = torch.float64
        if func in CIRCULAR and args[0].dtype == torch.float32:
            args = (args[0].double(), *args[1:])
        if func is torch.full and len(args) > 1 and abs(args[1]) > LARGEST:       # XGLM bounds scores by float64's least number
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


@dataclass
class Results:
    """Arrays of one precision: logits [B,T,V], loss, gradient of each parameter (None: no gradient), parameters after steps."""

    logits: np.ndarray
    loss: np.ndarray
    gradients: dict[str, np.ndarray | None]
    after: dict[tuple, dict[str, np.ndarray]] = field(default_factory=dict)
    firm: dict[tuple, dict[str, np.ndarray]] = field(default_factory=dict)     # elements whose gradient stayed large


def build(case: Case):
    """The float32 reference model with randomised weights, so that every norm and bias bites."""
    if case.tiny:
        from validation.reference import build as build_tiny

        return build_tiny(case.tiny, double=False)
    config = CONFIG_MAPPING[case.model_type](**case.config, bos_token_id=1, eos_token_id=2, pad_token_id=None)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return model


def values_of(model) -> dict[str, np.ndarray]:
    """Parameters by name; tied ones once."""
    return {name: parameter.detach().numpy().copy() for name, parameter in named_parameters(model)}


def inputs_of(case: Case, model, arrays: dict) -> dict:
    """The batch as the reference takes it. Packed rows are recognised by their positions, when there is no mask."""
    if case.tiny:
        from validation.reference import inputs

        return inputs(model, arrays)
    batch = {"input_ids": arrays["ids"], "position_ids": arrays["positions"], "labels": arrays["labels"]}
    if case.padding != "packed":
        batch["attention_mask"] = (arrays["segments"] > 0).astype(np.int64)
    return {name: torch.from_numpy(array.astype(np.int64)) for name, array in batch.items()} | {"use_cache": False}


def run(case: Case, arrays: dict, settings, double: bool) -> Results:
    """All that is compared, in one precision. settings: (steps, eps, decay) of each AdamW run."""
    models = [precise(build(case)) if double else build(case) for _ in range(1 + len(settings))]
    batch = inputs_of(case, models[0], arrays)
    mode = StayDouble() if double else nullcontext()
    with mode:
        results = first(models[0], batch)
    for setting, model in zip(settings, models[1:], strict=True):
        results.firm[setting] = train(model, batch, *setting, mode=mode)
        results.after[setting] = {name: array_of(parameter) for name, parameter in named_parameters(model)}
    return results


def first(model, batch: dict) -> Results:
    """Logits, loss and gradients of the values that the model has."""
    output = model(**batch)
    output.loss.backward()
    assert output.loss.dtype == next(model.parameters()).dtype
    return Results(array_of(output.logits), array_of(output.loss), _gradients(model))


def precise(model):
    """The model in float64; buffers (rotary frequencies) keep their dtype."""
    for parameter in model.parameters():
        parameter.data = parameter.data.double()
    return model


def train(model, batch: dict, steps: int, eps: float, decay: float, mode, watch: bool = True) -> dict[str, np.ndarray]:
    """AdamW steps on one batch; returns which elements' gradients stayed above `FIRM` of their tensor's largest, if it is to watch.
    mode: context of the model's computation, entered at each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=eps, weight_decay=decay, foreach=False)
    firm = {name: np.ones(parameter.shape, bool) for name, parameter in named_parameters(model)}
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with mode:
            model(**batch).loss.backward()
        for name, gradient in _gradients(model).items() if watch else ():
            if gradient is not None:
                firm[name] &= np.abs(gradient) > FIRM * np.abs(gradient).max()
        optimizer.step()
    return firm


def _gradients(model) -> dict[str, np.ndarray | None]:
    return {name: None if p.grad is None else array_of(p.grad) for name, p in named_parameters(model)}


def array_of(tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)
