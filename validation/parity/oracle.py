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
from validation.parity.shuffled import ShuffledSums
from validation.tiny import NO_POSITIONS

CONVERSIONS = (torch.Tensor.to, torch.Tensor.type)
SOFTMAX = (torch.nn.functional.softmax, torch.softmax, torch.Tensor.softmax)
LARGEST = torch.finfo(torch.float32).max
CIRCULAR = (torch.Tensor.cos, torch.Tensor.sin, torch.cos, torch.sin)
disable_progress_bar()
set_verbosity_error()
torch.set_num_threads(1)      # the same sums everywhere; two were 4 to 15 times slower on two busy cores

ORDERS = 12           # of float32 PyTorch, for the runs whose outcome depends on rounding noise
SHUFFLED = 6          # the orders from this number on also shuffle the axes of every product
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


@dataclass(frozen=True)
class Reordering:
    """A float32 run that is the same mathematics in another order: vocabulary permuted, rows of the batch reversed; from number
    `SHUFFLED` on the axes of products are shuffled too (`shuffled.py`).

    What PyTorch's float32 gives is one of many results that differ by rounding; number 0 is the order as it is."""

    number: int

    def permutation(self, config) -> np.ndarray:
        """new id of each id; those that a model treats in a way of their own stay."""
        if not self.number:
            return np.arange(config.vocab_size)
        new = np.random.default_rng(self.number).permutation(config.vocab_size)
        for kept in (getattr(config, "mask_token_id", None), config.pad_token_id if config.model_type in NO_POSITIONS else None):
            if kept is not None:
                new[new == kept], new[kept] = new[kept], kept
        return new

    def arrays(self, arrays: dict, config) -> dict:
        """The batch in the other order."""
        if not self.number:
            return arrays
        new = self.permutation(config).astype(np.int32)
        renamed = {name: np.where(arrays[name] >= 0, new[arrays[name]], -100) for name in ("ids", "labels", "targets")}
        return {name: array[::-1].copy() for name, array in (arrays | renamed).items()}

    def apply(self, model) -> list:
        """Permutes the rows of embedding and head in place; returns those parameters, each once."""
        head = model.get_output_embeddings()
        bias = next((getattr(part, "bias", None) for part in model.modules() if any(child is head for child in part.children())), None)
        rows = {id(p): p for p in (*model.get_input_embeddings().parameters(), *head.parameters(), bias) if p is not None}
        order = torch.from_numpy(np.argsort(self.permutation(model.config)))
        for parameter in rows.values():
            parameter.data = parameter.data[order].clone()
        return list(rows.values())

    def undo(self, model, parameters: list) -> None:
        """The rows as they were."""
        new = torch.from_numpy(self.permutation(model.config))
        for parameter in parameters:
            parameter.data = parameter.data[new].clone()


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
    """Everything that is compared, in one precision. settings: (steps, eps, decay) of each AdamW run."""
    models = [precise(build(case)) if double else build(case) for _ in range(1 + len(settings))]
    batch = inputs_of(case, models[0], arrays)
    with StayDouble() if double else nullcontext():
        model = models[0]
        output = model(**batch)
        output.loss.backward()
        assert not double or output.loss.dtype == torch.float64
        results = Results(_array(output.logits), _array(output.loss), _gradients(model))
        for setting, model in zip(settings, models[1:], strict=True):
            results.firm[setting] = train(model, batch, *setting)
            results.after[setting] = {name: _array(parameter) for name, parameter in named_parameters(model)}
    return results


class Orders:
    """Runs of float32 AdamW in several orders of the same mathematics. setting: steps, eps, decay."""

    def __init__(self, case: Case, arrays: dict, setting: tuple):
        self.case, self.arrays, self.setting, self.model = case, arrays, setting, None

    def after(self, number: int) -> dict[str, np.ndarray]:
        """Parameters after the run in order `number`."""
        if self.model is None:
            self.model = build(self.case)
            self.start = [parameter.detach().clone() for parameter in self.model.parameters()]
        for parameter, value in zip(self.model.parameters(), self.start, strict=True):
            parameter.data = value.clone()
        order = Reordering(number)
        permuted = order.apply(self.model)
        batch = inputs_of(self.case, self.model, order.arrays(self.arrays, self.model.config))
        with ShuffledSums(number) if number >= SHUFFLED else nullcontext():
            train(self.model, batch, *self.setting, watch=False)
        order.undo(self.model, permuted)
        return values_of(self.model)


def precise(model):
    """The model in float64; buffers (rotary frequencies) keep their dtype."""
    for parameter in model.parameters():
        parameter.data = parameter.data.double()
    return model


def train(model, batch: dict, steps: int, eps: float, decay: float, watch: bool = True) -> dict[str, np.ndarray]:
    """AdamW steps on one batch; returns which elements' gradients stayed above `FIRM` of their tensor's largest, if it is to watch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=eps, weight_decay=decay, foreach=False)
    firm = {name: np.ones(parameter.shape, bool) for name, parameter in named_parameters(model)}
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model(**batch).loss.backward()
        for name, gradient in _gradients(model).items() if watch else ():
            if gradient is not None:
                firm[name] &= np.abs(gradient) > FIRM * np.abs(gradient).max()
        optimizer.step()
    return firm


def _gradients(model) -> dict[str, np.ndarray | None]:
    return {name: None if p.grad is None else _array(p.grad) for name, p in named_parameters(model)}


def _array(tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)
