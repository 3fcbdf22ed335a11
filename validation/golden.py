"""Writes tests/models/golden.npz: what Transformers gives in float64, so that the ordinary tests need no torch.

    python -m validation.golden
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from tests.models.twin import CONFIGS, GOLDEN_IDS, model_and_values, probe
from validation.command import exit_with
from validation.parity.oracle import StayDouble, precise

TARGET = Path(__file__).parents[1] / "tests" / "models" / "golden.npz"


def golden(name: str) -> dict[str, np.ndarray]:
    """Logits, loss, and of each gradient its product with a fixed vector, of one configuration of the tests."""
    raw = dict(CONFIGS[name])
    config = CONFIG_MAPPING[raw.pop("model_type")](**raw, pad_token_id=None)
    model = precise(AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval())
    values = model_and_values(name)[1]
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(values[key]))
    ids = torch.from_numpy(GOLDEN_IDS.astype(np.int64))
    with StayDouble():
        output = model(input_ids=ids, labels=ids, use_cache=False)
        output.loss.backward()
    found = {"logits": output.logits.detach().numpy(), "loss": output.loss.detach().numpy()}
    return found | {f"gradient {key}": np.array((p.grad.numpy() * probe(key, p.shape)).sum()) for key, p in model.named_parameters()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    arrays = {f"{name}/{key}": value for name in CONFIGS for key, value in golden(name).items()}
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET.name}: {len(arrays)} arrays, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    exit_with(main)
