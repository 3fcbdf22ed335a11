"""Optimizer kernels against their NumPy twins in float64 and against PyTorch's formula, written out."""
import numpy as np
import pytest

from hierarchos.graph.op import ShapeError
from hierarchos.graph.ops.optimizer import SGD, AdamW, SumOfSquares
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.launch import Operand, Profile
from hierarchos.kernels.optimizer import BLOCK, GROUP_CODES, adamw, adamw_scalars, sgd_scalars, sum_of_squares
from tests.support import run_op

GPU = Profile("gpu", subgroup=8, compute_units=4)
SIZES = [BLOCK, 7 * BLOCK, 33 * BLOCK, 1027 * BLOCK]


def arenas(n, seed=0):
    rng = np.random.default_rng(seed)
    p, m, g = (rng.standard_normal(n).astype(np.float32) for _ in range(3))
    v = (rng.standard_normal(n) ** 2).astype(np.float32)
    return p, m, v, g, rng.integers(0, 2, n // BLOCK).astype(np.uint32)


def close(found, expected, ulps):
    """Sums such as m + (g - m) (1 - b) round at the size of their terms, which is about 1 here."""
    spacing = np.spacing(np.maximum(np.abs(expected), 1.0).astype(np.float32))
    assert np.max(np.abs(found - expected) / spacing) <= ulps


@pytest.mark.parametrize("profile", [None, GPU], ids=["device", "gpu"])
@pytest.mark.parametrize("n", SIZES)
def test_adamw_step(device, n, profile):
    p, m, v, g, groups = arenas(n)
    scalars = adamw_scalars(3, [(1e-2, 0.1), (2e-2, 0.0)], (0.9, 0.99), 1e-6)
    inputs = [p, m, v, g, groups, scalars, np.array([0.25], np.float32)]
    expected = AdamW().reference([a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs])
    for found, wanted in zip(run_op(device, AdamW(), *inputs, profile=profile), expected, strict=True):
        close(found, wanted, 3)


@pytest.mark.parametrize("profile", [None, GPU], ids=["device", "gpu"])
def test_blocks_that_carry_their_rounding_end_where_exact_sums_do(device, profile):
    """Twelve steps of the same size on numbers between 1 and 2: without carry the same rounding comes twelve times."""
    n, steps = 6 * BLOCK, 12
    p = np.random.default_rng(3).uniform(1, 2, n).astype(np.float32)
    g = np.random.default_rng(4).standard_normal(n).astype(np.float32)
    groups = np.array([0, 1 + GROUP_CODES * 2, 1, GROUP_CODES * 1, 0, GROUP_CODES * 3], np.uint32)
    kept = np.repeat(groups >= GROUP_CODES, BLOCK)
    plain = [p, np.zeros_like(p), np.zeros_like(p)]
    states, exact = [*plain, np.zeros(3 * BLOCK, np.float32)], [a.astype(np.float64) for a in plain]
    for step in range(1, steps + 1):
        scalars, one = adamw_scalars(step, [(1e-3, 0.1), (2e-3, 0.0)]), np.ones(1, np.float32)
        states = run_op(device, AdamW(carried=True), *states, g, groups, scalars, one, profile=profile)
        plain = run_op(device, AdamW(), *plain, g, groups, scalars, one, profile=profile)
        exact = AdamW().reference([*exact, g.astype(np.float64), groups, scalars.astype(np.float64), one.astype(np.float64)])
    error = np.abs(states[0] - exact[0])
    np.testing.assert_array_equal(states[0][~kept], plain[0][~kept])
    assert error[kept].max() < 0.6 * np.spacing(np.float32(1)) + 1e-9 < error[~kept].max()
    assert np.abs((states[0].astype(np.float64))[kept] + carried(states[3], groups)[kept] - exact[0][kept]).max() < 5e-9


@pytest.mark.parametrize("carry", [Spec((BLOCK + 1,)), Spec((1, BLOCK)), Spec((BLOCK,), "u32")])
def test_carry_is_whole_blocks_of_floats(carry):
    arena, groups = Spec((4 * BLOCK,)), Spec((4,), "u32")
    with pytest.raises(ShapeError, match="carry is f32"):
        AdamW(carried=True).infer([arena, arena, arena, carry, arena, groups, Spec((8,)), Spec((1,))])


def carried(carry, groups):
    """Carry of each float, 0 where a block has none."""
    place = np.repeat(groups.astype(np.int64) // GROUP_CODES - 1, BLOCK)
    return np.where(place < 0, 0, carry.reshape(-1, BLOCK)[place, np.tile(np.arange(BLOCK), len(groups))])


@pytest.mark.parametrize("momentum, nesterov", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("n", SIZES[:3])
def test_sgd_step(device, n, momentum, nesterov):
    p, b, _, g, groups = arenas(n)
    scalars = sgd_scalars([(1e-2, 0.1), (2e-2, 0.0)], 0.9, 0.1)
    inputs = [p, *([b] if momentum else []), g, groups, scalars, np.array([0.5], np.float32)]
    op = SGD(momentum, nesterov)
    expected = op.reference([a.astype(np.float64) if a.dtype == np.float32 else a for a in inputs])
    for found, wanted in zip(run_op(device, op, *inputs), expected, strict=True):
        close(found, wanted, 3)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -np.inf])
def test_a_scale_that_is_not_finite_changes_nothing(device, scale):
    p, m, v, g, groups = arenas(5 * BLOCK)
    scalars = adamw_scalars(1, [(1e-2, 0.1), (2e-2, 0.0)])
    found = run_op(device, AdamW(), p, m, v, g, groups, scalars, np.array([scale], np.float32))
    for after, before in zip(found, (p, m, v), strict=True):
        np.testing.assert_array_equal(after, before)


def test_sum_of_squares_of_many_elements(device):
    """Mesa 22.3's software driver ends an invocation after 65535 iterations; this size took more."""
    x = np.ones(5_000_000, np.float32)
    (found,) = run_op(device, SumOfSquares(), x)
    assert found.tolist() == [5_000_000.0]


@pytest.mark.parametrize("n", [BLOCK, 1 << 20, 134_515_072, 8_000_000_000 // BLOCK * BLOCK])
def test_no_invocation_loops_longer_than_the_software_driver_allows(n):
    cpu = Profile("cpu", subgroup=8, compute_units=2)
    x, pairs = Operand((n,), "f32", (1,)), Operand((9,), "f32", (1,))
    blocks, one = Operand((n // BLOCK,), "u32", (1,)), Operand((1,), "f32", (1,))
    squares, step = sum_of_squares(x, cpu).launches[0], adamw([x, x, x, x, blocks, pairs, one], cpu).launches[0]
    chunk, each = (launch.arguments[-2].value for launch in (squares, step))
    assert squares.groups[0] * chunk >= n and chunk // 8 + chunk // 256 < 65535
    assert step.groups[0] * each >= n // BLOCK and each * (1 + BLOCK // 8) < 65535


@pytest.mark.parametrize("profile", [None, GPU], ids=["device", "gpu"])
@pytest.mark.parametrize("n", [1, 7, 33, 257, 4096, 100_003])
def test_sum_of_squares(device, n, profile):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    (found,) = run_op(device, SumOfSquares(), x, profile=profile)
    np.testing.assert_allclose(found, [np.sum(x.astype(np.float64) ** 2)], rtol=3e-7)


def test_weights_decay_as_in_the_formula():
    """p = p (1 - rate decay) - rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps), Loshchilov and Hutter 2019."""
    n, rate, decay, step, b1, b2, eps = BLOCK, 0.01, 0.1, 5, 0.9, 0.999, 1e-8
    p, m, v, g, _ = (a.astype(np.float64) for a in arenas(n))
    found = AdamW().reference([p, m, v, g, np.zeros(1, np.uint32), adamw_scalars(step, [(rate, decay)], (b1, b2), eps).astype(np.float64),
                               np.ones(1)])
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    p = p * (1 - rate * decay) - rate * (m / (1 - b1**step)) / (np.sqrt(v / (1 - b2**step)) + eps)
    for a, b in zip(found, (p, m, v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
