"""Dropout: the mask is a function of position, stream and seed; statistics, scale, and the same mask in backward."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph.op import tracing
from hierarchos.graph.ops.pointwise import Fused, Pointwise
from hierarchos.graph.profile import profile_of
from hierarchos.graph.tensor import Graph
from hierarchos.kernels.expression import Expression, Instruction
from hierarchos.kernels.random import keep_threshold, philox_reference, random_bits_reference
from tests.support import run_op

RNG = np.random.default_rng(13)
SEED = np.array([0x12345678, 0x9ABCDEF0], np.uint32)


def dropout_op(probability: float, stream: int) -> Pointwise:
    return Pointwise("dropout", (None, None, None), (probability, stream))


@pytest.mark.parametrize(("word", "expected"), [
    (0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (0xFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
])
def test_philox_gives_the_published_words(word, expected):
    """Known answers of Random123 for counters and keys of all zeros and all ones."""
    counter = [np.array([word], np.uint32)] * 4
    assert tuple(int(w[0]) for w in philox_reference(counter, (word, word))) == expected


@pytest.mark.parametrize("shape", [(1,), (7,), (33,), (5, 257), (3, 4, 33), (2000, 8)])
def test_device_agrees_with_numpy_bit_for_bit(device, shape):
    x = RNG.normal(size=shape).astype(np.float32)
    op = dropout_op(0.1, 3)
    arrays = [x, SEED[:1], SEED[1:]]
    for profile in (profile_of(device), replace(profile_of(device), device_class="gpu")):
        np.testing.assert_array_equal(run_op(device, op, *arrays, profile=profile)[0], op.reference(arrays)[0])


def test_position_is_that_in_the_whole_index_space_of_strided_operands(device):
    x = RNG.normal(size=(40, 6)).astype(np.float32).T
    dag = Expression(("f32", "f32", "u32", "u32"), (Instruction("add", (0, 1)), Instruction("dropout", (4, 2, 3), (0.5, 1))), (5,))
    arrays = [x, RNG.normal(size=(6, 1)).astype(np.float32), SEED[:1], SEED[1:]]
    np.testing.assert_array_equal(run_op(device, Fused(dag), *arrays)[0], Fused(dag).reference(arrays)[0])


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_share_of_dropped_elements_and_mean(probability):
    x = np.ones(400_000, np.float32)
    y = dropout_op(probability, 0).reference([x, SEED[:1], SEED[1:]])[0]
    spread = 5 * np.sqrt(probability * (1 - probability) / x.size)
    assert abs((y == 0).mean() - probability) < spread
    assert abs(y.mean() - 1) < 5 * np.sqrt(probability / (1 - probability) / x.size)


def test_streams_seeds_and_positions_are_independent():
    index = np.arange(100_000)
    words = [random_bits_reference(index, 0, (1, 2)), random_bits_reference(index, 1, (1, 2)), random_bits_reference(index, 0, (2, 2))]
    kept = [(w >= keep_threshold(0.5)).astype(float) for w in words]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(kept[a], kept[b])[0, 1]) < 0.02
    assert abs(np.corrcoef(kept[0][1:], kept[0][:-1])[0, 1]) < 0.02


def test_backward_uses_the_mask_of_forward():
    from hierarchos.graph.autodiff import gradients
    from hierarchos.graph.evaluate import evaluate
    from hierarchos.graph.functions import dropout, input, sum
    with tracing(Graph()) as graph:
        x, seed = input("x", (33, 7), "f32"), input("seed", (2,), "u32")
        graph.outputs["y"] = y = dropout(x, 0.3, seed, stream=5)
        graph.outputs["dx"], = gradients(sum(y), [x])
    results = evaluate(graph, {"x": np.ones((33, 7), np.float32), "seed": SEED})[0]
    np.testing.assert_array_equal(results["y"], results["dx"])


def test_wrong_arguments_are_named():
    from hierarchos.graph.functions import dropout, input
    with tracing(Graph()):
        x = input("x", (3,), "f32")
        with pytest.raises(ValueError, match=r"probability 1\.0 is not in 0 <= p < 1"):
            dropout(x, 1.0, x, 0)
        with pytest.raises(ValueError, match=r"seed must be u32 \[2\], got f32 \[3\]"):
            dropout(x, 0.5, x, 0)
