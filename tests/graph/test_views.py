"""Views, copies and rows: NumPy semantics through `evaluate`."""
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import ShapeError, tracing
from hierarchos.graph.ops.views import reshaped_strides
from hierarchos.graph.tensor import Graph


def run(build, **arrays):
    with tracing(Graph()) as graph:
        inputs = [F.input(name, a.shape, {"f": "f32", "i": "i32"}[a.dtype.kind]) for name, a in arrays.items()]
        graph.outputs["y"] = build(*inputs)
    return evaluate(graph, arrays)[0]["y"]


X = np.arange(2 * 3 * 4, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize("build, expected", [
    (lambda x: F.reshape(x, (6, -1)), X.reshape(6, 4)),
    (lambda x: F.transpose(x), X.transpose(0, 2, 1)),
    (lambda x: F.expand(x, (5, 2, 3, 4)), np.broadcast_to(X, (5, 2, 3, 4))),
    (lambda x: x[:, -1], X[:, -1]),
    (lambda x: x[..., 1:3], X[..., 1:3]),
    (lambda x: F.split(x, (1, 2), axis=1)[1], X[:, 1:]),
    (lambda x: F.concat([x, x], axis=1), np.concatenate([X, X], 1)),
    (lambda x: F.pad(x, 1, 2, 1, 7.0), np.pad(X, ((0, 0), (2, 1), (0, 0)), constant_values=7)),
])
def test_views_are_numpy(build, expected):
    np.testing.assert_array_equal(run(build, x=X), expected)


def test_write_rows_writes_at_the_index_and_drops_what_does_not_fit():
    state = np.zeros((2, 3, 2), "float32")
    rows, index = np.ones((2, 2, 2), "float32"), np.array([0, 2], "int32")
    with tracing(Graph()) as graph:
        F.write_rows(F.state("cache", state.shape), F.input("rows", rows.shape), F.input("index", (2,), "i32"))
    _, after = evaluate(graph, {"rows": rows, "index": index}, {"cache": state})
    assert after["cache"][0].sum() == 4 and after["cache"][1].sum() == 2


def test_states_that_share_memory_see_each_other():
    arena = np.zeros(4, "float32")
    with tracing(Graph()) as graph:
        F.assign(F.state("part", (2,)), F.full((2,), 3.0))
        graph.outputs["whole"] = F.state("arena", (4,))
    outputs, _ = evaluate(graph, {}, {"part": arena[1:3], "arena": arena})
    assert outputs["whole"].tolist() == [0, 3, 3, 0]


def test_reshaped_strides_split_and_refuse():
    assert reshaped_strides((4, 6), (1, 4), (2, 2, 6)) == (2, 1, 4)
    assert reshaped_strides((4, 6), (1, 4), (24,)) is None
    assert reshaped_strides((2, 3, 4), (24, 4, 1), (2, 12)) == (24, 1)


@pytest.mark.parametrize("build, words", [
    (lambda x: F.reshape(x, (5, 5)), "reshape: [2, 3, 4] has 24"),
    (lambda x: F.expand(x, (2, 3, 5)), "expand: [2, 3, 4]"),
    (lambda x: x[:, 4:], "slice: 3:3 is empty"),
    (lambda x: F.assign(F.state("s", (3,)), x), "assign: the state is f32[3]"),
])
def test_wrong_shapes_say_what_was_given(build, words):
    with pytest.raises(ShapeError) as error:
        run(build, x=X)
    assert words in str(error.value)


@given(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans())
def test_a_reshaped_view_reads_the_same_elements(shape, random, broadcast):
    axes, factors = list(range(len(shape))), [f for n in shape for f in ([2, 2] if n == 4 else [n])]
    random.shuffle(axes)
    random.shuffle(factors)
    cut = random.randint(0, len(factors))
    target = tuple(p for p in (prod(factors[:cut]), *factors[cut:]))
    source = np.arange(prod(shape)).reshape(shape)
    view = (np.broadcast_to(source[:1], shape) if broadcast else source).transpose(axes)
    strides = reshaped_strides(view.shape, tuple(s // view.itemsize for s in view.strides), target)
    if strides is not None:
        read = np.lib.stride_tricks.as_strided(view, target, [s * view.itemsize for s in strides])
        np.testing.assert_array_equal(read, view.reshape(target))
