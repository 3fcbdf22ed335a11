"""Graphs that decode become few launches, and give the logits of the graphs that they are made from."""

import numpy as np
import pytest

from hierarchos.generation.cache import cache_specs, decode_graph
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.ops.cached_attention import CachedAttention
from hierarchos.graph.ops.gemv import Gemv
from hierarchos.graph.ops.leaf import Leaf
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.unpack import Unpack
from hierarchos.graph.ops.views import View
from hierarchos.graph.passes import optimise
from hierarchos.graph.tensor import Spec
from hierarchos.models.registry import resolve
from tests.models.twin import run_logits

WIDE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"sliding_window": 4},
    "phi3": {"pad_token_id": 0},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
}


OTHERS = {"bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4}, "cohere2": {"sliding_window": 4}}


def model_of(name):
    own = CONFIGS.get(name, OTHERS.get(name, {}))
    return resolve(
        {"model_type": name, "vocab_size": 40, **own} if {"n_embd", "n_head"} & own.keys() else {"model_type": name, **WIDE, **own}
    )


def graphs(name):
    """A model, its decode graph of one token, and the same optimised over a store of its parameters."""
    model = model_of(name)
    plain = decode_graph(model, 2, 1, 24)
    layout = StoreLayout()
    layout.allocate("parameters", {spec.name: Spec(spec.shape) for spec in model.parameters})
    layout.allocate("cache", cache_specs(plain))
    return model, plain, optimise(plain, layout)


def values_of(model, graph):
    """Parameters side by side in one array, as in a store, and a cache that holds something."""
    rng = np.random.default_rng(1)
    sizes = [-(-spec.size // 64) * 64 for spec in model.parameters]
    flat, at, states = rng.standard_normal(sum(sizes)) * 0.3, 0, {}
    for spec, size in zip(model.parameters, sizes, strict=True):
        states[spec.name] = flat[at : at + spec.size].reshape(spec.shape)
        at += size
    return states | {name: rng.standard_normal(spec.shape) for name, spec in cache_specs(graph).items()}


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_are_those_of_the_plain_graph(name):
    model, plain, fused = graphs(name)
    feeds = {"ids": np.array([[3], [7]], np.int32), "offset": np.array([5, 9], np.int32), "count": np.ones(2, np.int32)}
    expected = evaluate(plain, feeds, {k: v.copy() for k, v in values_of(model, plain).items()}, "float64")[0]["logits"]
    states = values_of(model, plain)
    assert np.abs(evaluate(fused, feeds, states, "float64")[0]["logits"] - expected).max() < 1e-10


@pytest.mark.parametrize("name", [*CONFIGS, "bloom", "cohere2", "olmo2"])
def test_the_device_gives_the_logits_of_the_whole_prefix(device, name):
    """Five tokens one by one behind a piece of nine; float32 rounding of two small layers."""
    from hierarchos.generation.session import Session
    from hierarchos.graph.program import compile_program
    from hierarchos.graph.store import StateStore

    model = model_of(name)
    rng = np.random.default_rng(2)
    values = {spec.name: (0.3 * rng.standard_normal(spec.shape) + (spec.initial == "ones")).astype(np.float32) for spec in model.parameters}
    store = StateStore(device)
    store.allocate("parameters", {spec.name: Spec(spec.shape) for spec in model.parameters})
    for key, value in values.items():
        store.write(key, value)
    session = Session(model, store, 1, 24, lambda graph, store: compile_program(graph, device, store))
    ids = rng.integers(0, 40, 14).tolist()
    whole = run_logits(model, values, [ids])[0]
    found = [session.extend([ids[:9]])[0], *(session.extend([[token]])[0] for token in ids[9:])]
    worst = max(np.abs(logits - whole[8 + step]).max() for step, logits in enumerate(found))
    session.close()
    store.free("parameters")
    assert worst < 1e-5 * max(1, np.abs(whole).max())


def test_a_llama_block_is_five_launches():
    _, _, fused = graphs("llama")
    launched = [node.op for node in fused.nodes if not isinstance(node.op, Leaf | View)]
    assert sum(isinstance(op, CachedAttention) for op in launched) == 2 and not any(isinstance(op, MatMul) for op in launched)
    assert [op.prologue for op in launched if isinstance(op, Gemv)] == ["rms", "none", "rms", "gated"] * 2 + ["rms"]
    assert len(launched) == 1 + 2 * 5 + 1  # embedding, blocks, head


def test_halves_are_read_as_they_lie():
    from hierarchos.graph import functions as F
    from hierarchos.graph.op import tracing
    from hierarchos.graph.ops.cached_attention import cached_attention
    from hierarchos.graph.ops.unpack import unpack
    from hierarchos.graph.tensor import Graph
    from hierarchos.kernels.packed import pack, unpacked

    weight = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    with tracing(Graph()) as graph:
        x = F.input("x", (1, 1, 32))
        y = F.linear(F.rms_norm(x, eps=1e-6), unpack(F.state("words", (256,), "u32"), "bf16", (16, 32)))
        q = F.reshape(y, (1, 1, 2, 8))
        graph.outputs["y"] = cached_attention(
            q, q, q, F.state("k", (1, 4, 2, 8)), F.state("v", (1, 4, 2, 8)), F.input("offset", (1,), "i32")
        )
    states = {"words": pack(weight, "bf16"), "k": np.zeros((1, 4, 2, 8), np.float32), "v": np.zeros((1, 4, 2, 8), np.float32)}
    feeds = {"x": np.ones((1, 1, 32), np.float32) * 0.5, "offset": np.zeros(1, np.int32)}
    found = optimise(graph)
    [gemv] = [node.op for node in found.nodes if isinstance(node.op, Gemv)]
    assert gemv.half == 2 and not any(isinstance(node.op, Unpack) for node in found.nodes)
    expected = unpacked(states["words"], "bf16", 512).reshape(16, 32).sum(1)
    assert np.abs(evaluate(found, feeds, states)[0]["y"].ravel() - expected).max() < 1e-4
