"""PEFT as the oracle, in float64 and in float32."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

from validation.parity.oracle import FIRM, StayDouble, build, inputs_of, precise
from validation.parity.shuffled import ShuffledSums
from validation.peft_parity.cases import SETTINGS, AdapterCase

PREFIX = "base_model.model."
RATE = 1e-3
warnings.filterwarnings("ignore", module="peft")
warnings.filterwarnings("ignore", message=".*(fan_in_fan_out|tie_word_embeddings|weight tying|tied).*")


@dataclass
class Results:
    """One precision: logits, loss, gradients and values after steps by PEFT's name without its prefix."""

    logits: np.ndarray
    disabled: np.ndarray
    loss: np.ndarray
    gradients: dict[str, np.ndarray]
    after: dict[tuple, dict[str, np.ndarray]] = field(default_factory=dict)
    firm: dict[tuple, dict[str, np.ndarray]] = field(default_factory=dict)


def adapted(case: AdapterCase, double: bool):
    """The reference model with an adapter whose parameters are all random, so that each one bites. The same values in both precisions."""
    torch.manual_seed(3)
    config = LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **case.settings)
    model = get_peft_model(build(case.case), config).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in named(model).items():
            start = torch.zeros_like(parameter) if ".lora_" in name and "magnitude" not in name else parameter
            parameter.copy_(start + torch.randn(parameter.shape, generator=generator) * 0.05)
    return precise(model) if double else model


def named(model) -> dict[str, torch.nn.Parameter]:
    """Trained parameters by their name in PEFT's file, without its prefix."""
    wanted = {id(p) for p in model.parameters() if p.requires_grad}
    where = {p.data_ptr(): p for p in model.parameters() if id(p) in wanted}
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name.removeprefix(PREFIX): where[value.data_ptr()] for name, value in state.items() if value.data_ptr() in where}


def run(case: AdapterCase, arrays: dict, double: bool) -> Results:
    """Everything that is compared, in one precision."""
    model = adapted(case, double)
    batch = inputs_of(case.case, model, arrays)
    with StayDouble() if double else nullcontext():
        output = model(**batch)
        output.loss.backward()
        base = build(case.case)                  # PEFT keeps trained biases where adapters are disabled; here nothing of them is left
        with torch.no_grad():
            disabled = array((precise(base) if double else base)(**batch).logits)
        gradients = {name: array(p.grad) for name, p in named(model).items()}
        results = Results(array(output.logits), disabled, array(output.loss), gradients)
        for setting in SETTINGS:
            model = adapted(case, double)
            results.firm[setting] = train(model, batch, *setting)
            results.after[setting] = {name: array(p) for name, p in named(model).items()}
    return results


def after(case: AdapterCase, arrays: dict, setting: tuple, order: int = 0) -> dict[str, np.ndarray]:
    """Values after a float32 run whose products sum in another order; 0 is PyTorch's usual one."""
    model = adapted(case, double=False)
    with ShuffledSums(order) if order else nullcontext():
        train(model, inputs_of(case.case, model, arrays), *setting)
    return {name: array(p) for name, p in named(model).items()}


def train(model, batch: dict, steps: int, eps: float, decay: float) -> dict[str, np.ndarray]:
    """AdamW steps on one batch; returns which elements' gradients stayed firm."""
    parameters = named(model)
    optimizer = torch.optim.AdamW(parameters.values(), lr=RATE, betas=(0.9, 0.999), eps=eps, weight_decay=decay, foreach=False)
    firm = {name: np.ones(p.shape, bool) for name, p in parameters.items()}
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model(**batch).loss.backward()
        for name, p in parameters.items():
            gradient = np.abs(array(p.grad))
            firm[name] &= gradient > FIRM * gradient.max()
        optimizer.step()
    return firm


def array(tensor) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)
