"""The other side of `hierarchos bench lora`: the same steps in PEFT on the processor, one JSON line.

    python -m validation.bench_lora BASE ADAPTER IDS.npy [--precision fp32|bf16] [--rate 2e-4]

PEFT as it comes: Transformers' own choice of attention; in bf16 the frozen weights and activations are bf16, the adapter is
float32. Development only.
"""
from __future__ import annotations

import argparse
import json
import time

import numpy as np
import peft
import torch
import torch.nn.functional as F
import transformers

from pipelines.bench.lora import side

KINDS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def losses_and_seconds(base: str, adapter: str, rows: np.ndarray, kind: torch.dtype, rate: float) -> tuple[list[float], list[float]]:
    """Of each step; rows [steps, length + 1]."""
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=kind)
    model = peft.PeftModel.from_pretrained(model, adapter, is_trainable=True).train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01, eps=1e-8)
    losses, seconds = [], []
    for row in torch.from_numpy(rows).long():
        begun = time.perf_counter()
        optimizer.zero_grad()
        logits = model(input_ids=row[None, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits[0].float(), row[1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
        seconds.append(time.perf_counter() - begun)
    return losses, seconds


def bf16_units() -> str:
    """What this processor multiplies bf16 with."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = next((set(line.split()) for line in file if line.startswith(("flags", "Features"))), set())
    except OSError:
        return "unknown"
    return ", ".join(name for name in ("amx_bf16", "avx512_bf16", "bf16") if name in flags) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.bench_lora", description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("adapter")
    parser.add_argument("ids")
    parser.add_argument("--precision", default="fp32", choices=KINDS)
    parser.add_argument("--rate", type=float, default=2e-4)
    given = parser.parse_args()
    transformers.logging.set_verbosity_error()
    losses, seconds = losses_and_seconds(given.base, given.adapter, np.load(given.ids), KINDS[given.precision], given.rate)
    print(json.dumps(side("PEFT on the processor", given.precision, losses, seconds) | {
        "torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__,
        "threads": torch.get_num_threads(), "bf16_units": bf16_units()}))


if __name__ == "__main__":
    main()
