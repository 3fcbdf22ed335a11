"""Writes tests/generation/golden.json: the tokens that Transformers' generate gives in float64 for every policy of the tests.

python -m validation.golden_generation
"""

from __future__ import annotations

import argparse
import json

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from tests.generation.cases import GOLDEN, MODELS, POLICIES, PROMPTS, options_of
from tests.models.twin import CONFIGS, model_and_values
from validation.command import exit_with


def reference(name: str):
    """The model of the tests in Transformers, in float64."""
    raw = dict(CONFIGS[name])
    config = CONFIG_MAPPING[raw.pop("model_type")](**raw, pad_token_id=None, bos_token_id=None, eos_token_id=None)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).double().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(model_and_values(name)[1][key]))
    return model


def tokens(model, prompt: list[int], policy: str) -> list[list[int]]:
    """New tokens of each returned sequence, without padding behind the end."""
    options = {key: value for key, value in options_of(policy).items() if value is not None}
    ids = torch.tensor([prompt])
    found = model.generate(ids, attention_mask=torch.ones_like(ids), **options)[:, len(prompt) :].tolist()
    return [until_end(row, options.get("eos_token_id")) for row in found]


def until_end(row: list[int], ends) -> list[int]:
    ends = ends if isinstance(ends, list) else [ends]
    return next((row[: i + 1] for i, token in enumerate(row) if token in ends), row)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    result = {
        name: {policy: {key: tokens(model, prompt, policy) for key, prompt in PROMPTS.items()} for policy in POLICIES}
        for name, model in ((name, reference(name)) for name in MODELS)
    }
    lines = [
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(policy)}: {json.dumps(found)}" for policy, found in policies.items())
        + "\n }"
        for name, policies in result.items()
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{GOLDEN.name}: {len(MODELS)} models, {len(POLICIES)} policies, {len(PROMPTS)} prompts")


if __name__ == "__main__":
    exit_with(main)
