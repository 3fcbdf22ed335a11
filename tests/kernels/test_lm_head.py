"""LM head and cross-entropy on the device against float64.

Tolerances, relative to max(1, largest value): logits carry 2 sqrt(D) 2^-24 |x||W| of rounding, which passes into nll, and from
there, at most once, into every gradient; with the sizes here that stays below 2e-6.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph.op import ShapeError
from hierarchos.graph.ops.lm_head import LmHeadLoss
from hierarchos.graph.profile import profile_of
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.launch import Operand, Profile, Work, row_major
from hierarchos.kernels.lm_head import chunk_rows
from tests.support import run_op

TOLERANCE = 2e-6
SHAPES = [(7, 8, 33), (33, 31, 7), (1, 16, 257), (64, 32, 1000), (130, 40, 258), (5, 1, 2), (3, 4, 1)]


def arrays_of(rows: int, width: int, vocabulary: int, bias: bool = False) -> list[np.ndarray]:
    random = np.random.default_rng(rows * vocabulary)
    targets = random.integers(0, vocabulary, rows).astype(np.int32)
    targets[1::3] = -100
    made = [random.standard_normal((rows, width)), 0.5 * random.standard_normal((vocabulary, width)), targets, random.random(rows)]
    made += [random.standard_normal(vocabulary)] * bias
    return [a if a.dtype == np.int32 else a.astype(np.float32) for a in made]


def truth(op: LmHeadLoss, arrays: list[np.ndarray]) -> list[np.ndarray]:
    return op.reference([a if a.dtype == np.int32 else a.astype(np.float64) for a in arrays])


def check(device, op: LmHeadLoss, arrays: list[np.ndarray], profile: Profile | None = None) -> list[np.ndarray]:
    got = run_op(device, op, *arrays, profile=profile)
    for name, ours, exact in zip(("loss", "nll", "dx", "dweight", "dbias"), got, truth(op, arrays), strict=False):
        error = np.abs(ours - exact).max() / max(1.0, np.abs(exact).max())
        assert error <= TOLERANCE, f"{name}: {error:.1e}"
    return got


def profile_for(device, kind: str, **changes) -> Profile:
    """The device's profile with kernels of another class; those for CPU drivers need eight lanes in a subgroup."""
    if kind == "cpu" and device.info.kind != "software":
        pytest.skip("kernels for CPU drivers are not made for the subgroups of a GPU")
    return replace(profile_of(device), device_class=kind, **changes)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("shape", SHAPES)
def test_loss_and_gradients(device, kind, shape):
    check(device, LmHeadLoss(with_gradients=True), arrays_of(*shape), profile_for(device, kind))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("shape", [(7, 8, 33), (64, 32, 1000)])
def test_bias_scale_and_softcap(device, kind, shape):
    op = LmHeadLoss(scale=1.7, softcap=3.0, has_bias=True, with_gradients=True)
    check(device, op, arrays_of(*shape, bias=True), profile_for(device, kind))
    check(device, replace(op, softcap=None), arrays_of(*shape, bias=True), profile_for(device, kind))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_loss_alone_has_the_bits_of_the_loss_with_gradients(device, kind):
    arrays, profile = arrays_of(64, 32, 1000), profile_for(device, kind)
    with_gradients = run_op(device, LmHeadLoss(with_gradients=True), *arrays, profile=profile)
    alone = run_op(device, LmHeadLoss(), *arrays, profile=profile)
    assert all((a == b).all() for a, b in zip(alone, with_gradients, strict=False))


@pytest.mark.parametrize("chunk", [1, 10, 37])
def test_rows_do_not_depend_on_the_chunk(device, chunk):
    op, arrays = LmHeadLoss(has_bias=True, with_gradients=True), arrays_of(70, 24, 99, bias=True)
    whole = check(device, op, arrays, profile_for(device, "cpu"))
    parts = check(device, op, arrays, profile_for(device, "cpu", chunk_bytes=chunk * 400))
    for name, a, b in zip(("loss", "nll", "dx"), whole, parts, strict=False):     # dweight and dbias: summed in another order
        assert (a == b).all(), name


def test_extreme_logits_stay_finite(device):
    x = np.array([[80.0], [-80.0], [0.0]], np.float32)
    weight = np.array([[1.0], [-1.0], [0.5], [0.0]], np.float32)
    op = LmHeadLoss(with_gradients=True)
    got = check(device, op, [x, weight, np.array([0, 0, 3], np.int32), np.ones(3, np.float32)])
    assert all(np.isfinite(a).all() for a in got)
    assert got[1][0] == 0.0


def test_nothing_trained_gives_zeros(device):
    x, weight, targets, weights = arrays_of(9, 8, 33)
    loss, nll, dx, dweight = run_op(device, LmHeadLoss(with_gradients=True), x, weight, np.full_like(targets, -100), weights)
    assert loss == 0 and not nll.any() and not dx.any() and not dweight.any()


def test_a_target_outside_the_vocabulary_is_not_a_number(device):
    x, weight, targets, weights = arrays_of(9, 8, 33)
    targets[4] = 33
    loss, nll = run_op(device, LmHeadLoss(), x, weight, targets, weights)
    assert np.isnan(loss) and np.isnan(nll[4]) and np.isfinite(np.delete(nll, 4)).all()


def test_scratch_memory_holds_one_chunk_of_logits():
    profile = Profile(chunk_bytes=1 << 20)
    shapes = [((4096, 64), "f32"), ((8000, 64), "f32"), ((4096,), "i32"), ((4096,), "f32")]
    inputs = [Operand(shape, dtype, row_major(shape)) for shape, dtype in shapes]
    op = LmHeadLoss(with_gradients=True)
    outputs = [Operand(spec.shape, spec.dtype, row_major(spec.shape)) for spec in op.infer([Spec(o.shape, o.dtype) for o in inputs])]
    lowering = op.lower(inputs, outputs, profile)
    assert lowering.workspace <= 1 << 20
    works = [a for launch in lowering.launches for a in launch.arguments if isinstance(a, Work)]
    assert all(w.offset + w.nbytes <= lowering.workspace for w in works)
    assert chunk_rows(4096, 10**6, profile) == 1


@pytest.mark.parametrize("change,message", [
    ({0: Spec((5, 7))}, "x must be [N, D] and weight [V, D]; got [5, 7] and [9, 8]"),
    ({2: Spec((5,))}, "targets must be i32 [5]; got f32 [5]"),
    ({3: Spec((6,))}, "token_weights must be f32 [5]; got f32 [6]"),
])
def test_shapes_that_do_not_fit_are_named(change, message):
    specs = [Spec((5, 8)), Spec((9, 8)), Spec((5,), "i32"), Spec((5,))]
    with pytest.raises(ShapeError) as failure:
        LmHeadLoss().infer([change.get(i, spec) for i, spec in enumerate(specs)])
    assert message in str(failure.value)
