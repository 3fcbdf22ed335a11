"""Decoding speed beside Transformers' generate, in one run: tokens/s at batch 1, prompt of 8 tokens, greedy, nothing stops.

    python -m validation.decode                            a model of SmolLM2-135M's size with random weights, 128 new tokens
    python -m validation.decode --package DIR --tokens 32  a real package
    python -m validation.decode --base bf16                linear weights in halves on the device, computed as floats
    python -m validation.decode --profile                  also: microseconds of each kernel of a step, alone between timestamps

Transformers runs on the GPU where PyTorch has one, else on the CPU with as many threads as cores. Also printed: how many of the
greedy tokens agree (random weights make near ties; a real package should agree in all).
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict

import numpy as np

from hierarchos.generation.session import ARENA, Session
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.kernels.choose import Drawing
from hierarchos.models.load import load_model
from hierarchos.models.registry import resolve
from hierarchos.nn.stored import as_stored, place_of
from hierarchos.peft.adapted import kept_in
from hierarchos.vulkan.device import open_device
from validation.command import exit_with

SMOLLM2 = {
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
    "tie_word_embeddings": True,
    "eos_token_id": None,
}
PROMPT = [504, 3575, 282, 4649, 314, 260, 253, 1165]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--base", default="fp32", choices=("fp32", "fp16", "bf16", "int8", "int4"))
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--no-oracle", action="store_true")
    options = parser.parse_args()
    model, values = model_of(options.package)
    model = kept_in(model, options.base)
    with open_device(options.device) as device:
        print(device.info.name, flush=True)
        ours, speed = decode(model, values, device, options)
    print(f"hierarchos    {speed:8.1f} tokens/s", flush=True)
    if not options.no_oracle:
        theirs, speed_theirs, where = oracle(options, values)
        agree = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
        print(f"Transformers  {speed_theirs:8.1f} tokens/s ({where}); ratio {speed / speed_theirs:.2f}")
        print(f"the first {agree} of {len(ours)} tokens agree")


def model_of(package: str | None):
    """A model and its parameters by name."""
    if package:
        loaded = load_model(package)
        return loaded.model, {name: loaded.value(name) for name in loaded.match.source}
    model = resolve(SMOLLM2)
    rng = np.random.default_rng(0)
    return model, {
        spec.name: np.ones(spec.shape, np.float32)
        if len(spec.shape) == 1
        else rng.standard_normal(spec.shape, np.float32) * np.float32(0.05)
        for spec in model.parameters
    }


def decode(model, values, device, options) -> tuple[list[int], float]:
    """Greedy tokens of the first row, and the best tokens/s of all rows together."""
    store = StateStore(device)
    specs = {spec.name: spec for spec in model.parameters}
    store.allocate("parameters", {name: place_of(spec) for name, spec in specs.items()})
    for name, value in values.items():
        store.write(name, as_stored(specs[name], value))
    session = Session(model, store, options.rows, 256, lambda graph, store: compile_program(graph, device, store, label="decode"))
    best, tokens = 0.0, []
    for _ in range(options.repeats + 1):
        session.reset()
        logits = session.extend([PROMPT] * options.rows)
        newest = logits.argmax(1).tolist()
        tokens, start = [newest[0]], time.perf_counter()
        for step in session.steps(newest, options.tokens - 1, Drawing()):
            tokens.append(step[0])
        best = max(best, options.rows * (options.tokens - 1) / (time.perf_counter() - start))
    program = session.programs["step"]
    print(
        f"{len(program.recording.commands)} commands, {program.recording.barriers} barriers a token; cache "
        f"{store.layout.arenas[ARENA] / 2**20:.1f} MiB"
    )
    if options.profile:
        session.close()
        profile(model, device, store, options.rows)
    return tokens, best


def profile(model, device, store, rows: int) -> None:
    session = Session(model, store, rows, 256, lambda graph, store: compile_program(graph, device, store, profile=True, label="decode"))
    session.extend([PROMPT] * rows)
    list(session.steps([1] * rows, 3, Drawing()))
    total: dict[str, list[float]] = defaultdict(list)
    for label, seconds in session.programs["step"].timings():
        total[label].append(seconds)
    for label, found in sorted(total.items(), key=lambda item: -sum(item[1])):
        print(f"  {label:32} {len(found):4} x {1e6 * sum(found) / len(found):8.2f} us = {1e3 * sum(found):7.3f} ms")


def oracle(options, values) -> tuple[list[int], float, str]:
    """Greedy tokens and tokens/s of Transformers."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    where = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    if options.package:
        model = AutoModelForCausalLM.from_pretrained(options.package, dtype=torch.float32)
    else:
        model = LlamaForCausalLM(LlamaConfig(**{key: value for key, value in SMOLLM2.items() if key != "model_type"}))
        model.load_state_dict({name: torch.tensor(value) for name, value in values.items()}, strict=False)
        model.tie_weights()
    model = model.eval().to(where)
    ids = torch.tensor([PROMPT] * options.rows, device=where)
    best, found = 0.0, ids
    settings = {
        "do_sample": False,
        "eos_token_id": None,
        "pad_token_id": 0,
        "max_new_tokens": options.tokens,
        "min_new_tokens": options.tokens,
    }
    settings |= {"attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        for _ in range(2):
            start = time.perf_counter()
            found = model.generate(ids, **settings)[:, ids.shape[1] :]
            best = max(best, found.numel() / (time.perf_counter() - start))
    return found[0].tolist(), best, f"{where}, {torch.get_num_threads()} threads" if where == "cpu" else where


if __name__ == "__main__":
    exit_with(main)
