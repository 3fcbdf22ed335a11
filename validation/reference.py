"""Builds the models of Transformers that a variant of `validation.tiny` names, with weights in which everything bites."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import torch
import transformers

from validation.names import named_parameters
from validation.parity.oracle import CIRCULAR, StayDouble, precise
from validation.tiny import Tiny

ROUNDED = (*CIRCULAR, torch.exp)
UNSHIFTED = {*transformers.MODEL_FOR_MASKED_LM_MAPPING.values(), transformers.TrOCRForCausalLM}   # a label is its own position's
NUMBERED = ("roberta", "camembert", "xlm-roberta", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl", "esm")


class ExactTables(StayDouble):
    """`StayDouble`, with tables of positions rounded to float32 as our programs hold them: what remains is pure float64."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in ROUNDED and args[0].dtype == torch.float32:
            return func(args[0].double()).float()
        if func is torch.full and abs(args[1]) > torch.finfo(torch.float32).max:       # XGLM bounds scores by float64's least number
            kwargs = {**(kwargs or {}), "dtype": torch.float64}
        return super().__torch_function__(func, types, args, kwargs)


def build(tiny: Tiny, double: bool = True):
    """The model in evaluation mode, attention "eager" where that is right, noise added to every parameter in their order."""
    config = transformers.CONFIG_MAPPING[tiny.model_type](**tiny.config)
    if getattr(config, "reorder_and_upcast_attn", False):
        config.reorder_and_upcast_attn = False      # the same mathematics, but it insists on float32
    options = {"attn_implementation": tiny.fault.attention, "dtype": torch.float32}
    torch.manual_seed(0)
    with ExactTables():                            # sinusoidal positions are made here
        if tiny.auto:
            model = getattr(transformers, tiny.auto).from_config(config, **options)
        else:
            module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
            model = getattr(module, tiny.class_name)._from_config(config, **options)
    generator = torch.Generator().manual_seed(tiny.seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.05)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None               # the padding's row is a row like others: the harness reorders them
    return precise(model.eval()) if double else model.eval()


def inputs(model, arrays: dict) -> dict:
    """A batch of `validation.tiny.batch` as the model takes it; positions go in where it takes them."""
    batch = {"input_ids": arrays["ids"]}
    if not arrays["segments"].all():
        batch["attention_mask"] = arrays["segments"] > 0
    taken = inspect.signature(model.forward).parameters
    if "position_ids" in taken:
        rotary = getattr(model.config, "position_embedding_type", None) == "rotary"
        is_numbered = model.config.model_type in NUMBERED and not rotary
        batch["position_ids"] = numbered(model.config, arrays) if is_numbered else arrays["positions"]
    if "labels" in taken:
        batch["labels"] = arrays["targets" if type(model) in UNSHIFTED else "labels"]
    return {name: torch.from_numpy(array.astype(np.int64)) for name, array in batch.items()}


def numbered(config, arrays: dict) -> np.ndarray:
    """The positions of models that number tokens from behind the padding token's number, as they make them from ids themselves."""
    return np.where(arrays["segments"] > 0, arrays["positions"] + config.pad_token_id + 1, config.pad_token_id)


def gradients(model) -> dict[str, np.ndarray | None]:
    """By parameter; None where the loss does not depend on it."""
    return {name: None if p.grad is None else p.grad.numpy() for name, p in named_parameters(model)}


def values(model) -> dict[str, np.ndarray]:
    """Parameters by name; tied ones once."""
    return {name: p.detach().numpy() for name, p in named_parameters(model)}
