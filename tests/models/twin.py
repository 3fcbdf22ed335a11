"""Runs models with the NumPy twins in float64, for tests that need neither torch nor a device."""

from __future__ import annotations

import numpy as np

from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.registry import resolve
from hierarchos.nn.batch import input_batch, logits

SHARED = {"vocab_size": 41, "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 4,
          "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64}
CONFIGS = {
    "llama": {"model_type": "llama", **SHARED},
    "llama tied": {"model_type": "llama", **SHARED, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    "mistral": {"model_type": "mistral", **SHARED, "sliding_window": 5},
    "qwen2": {"model_type": "qwen2", **SHARED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "qwen3": {"model_type": "qwen3", **SHARED, "head_dim": 10},
    "gpt2": {"model_type": "gpt2", "vocab_size": 41, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 64,
             "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0},
}
GOLDEN_IDS = np.random.default_rng(11).integers(0, 41, (2, 13)).astype(np.int32)


def probe(name: str, shape) -> np.ndarray:
    """A fixed vector for each gradient: one number says whether all its elements are right."""
    return np.random.default_rng(len(name)).standard_normal(shape)


def model_and_values(name: str, seed: int = 0):
    """A small model, and random float64 values in which every norm and bias bites."""
    model = resolve(CONFIGS[name])
    generator = np.random.default_rng(seed)
    return model, {spec.name: (spec.initial == "ones") + 0.3 * generator.standard_normal(spec.shape) for spec in model.parameters}


def run_logits(model, values: dict, ids, segments=None, positions=None) -> np.ndarray:
    """Logits [B,T,V] in float64."""
    ids = np.asarray(ids, np.int32)
    segments = np.ones(ids.shape, np.int32) if segments is None else np.asarray(segments, np.int32)
    positions = np.broadcast_to(np.arange(ids.shape[1]) if positions is None else positions, ids.shape).astype(np.int32)
    with tracing(Graph()) as graph:
        graph.outputs["logits"] = logits(model.forward(model.weights(), input_batch(*ids.shape)))
    return evaluate(graph, {"ids": ids, "positions": positions, "segments": segments}, values, "float64")[0]["logits"]
