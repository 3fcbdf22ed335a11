"""Lowerings become commands: push constants, spans, specialization constants. And copies on the real device."""
import struct

import numpy as np
import pytest

from hierarchos.graph.binding import bind, constant_word, pack
from hierarchos.graph.ops.joins import Concat, Pad
from hierarchos.graph.ops.leaf import Assign
from hierarchos.graph.ops.rows import WriteRows
from hierarchos.graph.ops.views import Contiguous, Reshape
from hierarchos.kernels.launch import F32, I32, U32, Clear, In, Launch, Lowering, Operand, Out, Work
from hierarchos.vulkan.commands import Dispatch, Fill, Shader, Span
from tests.support import run_op


def test_push_constants_are_addresses_then_numbers():
    assert pack([4096, None, U32(7), I32(-1), F32(0.5)]) == struct.pack("<QQIif", 4096, 0, 7, -1, 0.5)
    with pytest.raises(AssertionError):
        pack([U32(1), 4096])


def test_specialization_constants_are_words():
    assert [constant_word(v) for v in (True, -1, 1.0)] == [1, 0xFFFFFFFF, 0x3F800000]


def test_spans_follow_strides_offsets_and_workspace():
    operand = Operand((2, 3), "f32", (8, 1))
    launch = Launch(Shader("s", b""), (1, 1, 1), (In(0, 4), Out(0, read=True), Work(16, 32, read=False), U32(9)))
    lowering = Lowering((Clear(Work(16, 32), 32, 5), launch), workspace=64)
    fill, dispatch = bind(lowering, [(1000, operand)], [(2000, operand)], workspace=3000, label="op")
    assert fill == Fill(Span(3016, 32), 5, "clear")
    assert isinstance(dispatch, Dispatch) and dispatch.label == "op"
    assert dispatch.reads == (Span(1004, 40), Span(2000, 44, 32, 12))
    assert dispatch.writes == (Span(2000, 44, 32, 12), Span(3016, 32))


X = np.arange(2 * 31 * 7, dtype="float32").reshape(2, 31, 7)


@pytest.mark.parametrize("op, arrays", [
    (Contiguous(), [X.transpose(2, 0, 1)]),
    (Contiguous(), [np.broadcast_to(X[:, :1], X.shape)]),
    (Reshape((31 * 7, 2)), [X.transpose(2, 1, 0)]),
    (Concat(1), [X, X[:, 3:9], X.transpose(0, 2, 1)[:, :, :7].transpose(0, 1, 2)]),
    (Pad(2, 3, 2, -1.5), [X.transpose(0, 2, 1)]),
    (Assign(), [np.zeros_like(X), np.broadcast_to(X[:1], X.shape)]),
    (WriteRows(), [np.zeros((2, 9, 3), "float32"), np.ones((2, 4, 3), "float32"), np.array([2, 7], "int32")]),
    (WriteRows(), [np.zeros((2, 9, 3), "float32"), X[:, :4, 2:5], np.array([6, -1], "int32")]),
    (WriteRows(), [np.zeros((2, 9, 2, 4), "f4"), np.arange(64.0).reshape(2, 4, 4, 2).transpose(0, 1, 3, 2), np.array([0, 3], "int32")]),
    (Contiguous(), [np.zeros((2, 2, 2, 2, 2, 2, 2, 3), "float32").transpose(7, 5, 3, 1, 6, 4, 2, 0)]),
])
def test_copies_on_the_device_equal_numpy(device, op, arrays):
    expected = op.reference([a.copy() for a in arrays])
    for ours, truth in zip(run_op(device, op, *arrays), expected, strict=True):
        np.testing.assert_array_equal(ours, truth)
