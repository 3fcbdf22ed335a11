"""Generated elementwise kernels against NumPy: primitives, broadcasting, strides, fusion, both ways to walk, both device classes."""
from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.ops.pointwise import Fused, Pointwise
from hierarchos.graph.profile import profile_of
from hierarchos.kernels.elementwise import collapse, copy_launch, elementwise
from hierarchos.kernels.elementwise_code import elementwise_shader
from hierarchos.kernels.expression import PRIMITIVES, Expression, Instruction
from hierarchos.kernels.launch import In, Lowering, Operand, Out, Profile, row_major
from tests.support import run_op

RNG = np.random.default_rng(3)
SIZES = (1, 7, 31, 33, 257)
GPU = {"device_class": "gpu", "subgroup": 8}
RELATIVE = 5e-7                                      # a few units in the last place; test_numerics.py bounds each function


def profiles(device) -> list[Profile]:
    """The device's own profile and the one of a GPU, which must compute the same on any device."""
    return [profile_of(device), replace(profile_of(device), **GPU)]


def check(device, op, *arrays: np.ndarray, absolute: float = 1e-7) -> None:
    truth = op.reference([a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays])
    for profile in profiles(device):
        for result, expected in zip(run_op(device, op, *arrays, profile=profile), truth, strict=True):
            np.testing.assert_allclose(result, expected, rtol=RELATIVE, atol=absolute)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


FLOATS = [n for n, p in PRIMITIVES.items() if p.kind in ("float", "number", "compare")]


@pytest.mark.parametrize("name", FLOATS)
def test_primitive_on_floats(device, name):
    x, y = normal(3, 33), normal(3, 33)
    x = np.abs(x) + np.float32(0.1) if name in ("log", "sqrt", "rsqrt", "power") else x
    arrays = [x, y][: PRIMITIVES[name].arity]
    check(device, Pointwise(name, (None,) * len(arrays)), *arrays)


@pytest.mark.parametrize("name", [n for n, p in PRIMITIVES.items() if p.kind in ("number", "compare")])
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_primitive_on_integers(device, name, dtype):
    low = 0 if dtype is np.uint32 else -5
    arrays = [RNG.integers(low, 6, (7, 9)).astype(dtype) for _ in range(PRIMITIVES[name].arity)]
    op = Pointwise(name, (None,) * len(arrays))
    np.testing.assert_array_equal(run_op(device, op, *arrays)[0], op.reference(arrays)[0])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("rows", SIZES[:4])
def test_broadcasts_a_row_and_a_column(device, rows, size):
    dag = Expression(("f32",) * 3, (Instruction("add", (0, 1)), Instruction("mul", (3, 2))), (4,))
    check(device, Fused(dag), normal(rows, size), normal(size), normal(rows, 1), absolute=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from((1, 2, 3, 5, 9, 33)), min_size=1, max_size=5), st.data())
def test_any_shape_with_any_broadcast_and_order_of_axes(device, shape, data):
    arrays = []
    for _ in range(2):
        repeated = [data.draw(st.booleans()) for _ in shape]
        order = data.draw(st.permutations(range(len(shape))))
        kept = [1 if r else n for n, r in zip(shape, repeated, strict=True)]
        array = normal(*[kept[a] for a in order]).transpose([order.index(a) for a in range(len(shape))])
        arrays.append(np.broadcast_to(array, shape) if data.draw(st.booleans()) else array)
    check(device, Pointwise("sub", (None, None)), *arrays)


def test_sliced_operands(device):
    x, y = normal(9, 40)[2:8, 3:36], normal(6, 66)[:, ::2]
    check(device, Pointwise("mul", (None, None)), x, y)


def test_numbers_are_inlined_and_take_the_dtype_of_the_tensor(device):
    check(device, Pointwise("sub", (1.0, None)), normal(7))
    whole = RNG.integers(-9, 9, 31).astype(np.int32)
    check(device, Pointwise("mul", (None, 3)), whole)
    check(device, Pointwise("where", (None, 1.0, 0.0)), (whole > 0).astype(np.uint32))


def test_where_takes_any_nonzero_integer_as_true(device):
    check(device, Pointwise("where", (None, None, None)), RNG.integers(-1, 2, (5, 33)).astype(np.int32), normal(5, 33), normal(33))


@pytest.mark.parametrize(("source", "target"), [("f32", "i32"), ("i32", "f32"), ("u32", "f32"), ("i32", "u32"), ("u32", "i32")])
def test_casts(device, source, target):
    low = 0 if source == "u32" else -100
    x = RNG.uniform(low, 100, 257).astype({"f32": np.float32, "i32": np.int32, "u32": np.uint32}[source])
    op = Pointwise("cast", (None,), (target,))
    np.testing.assert_array_equal(run_op(device, op, x)[0], op.reference([x])[0])


def test_nan_passes_through_maximum_minimum_and_relu(device):
    x, y = np.array([np.nan, 1.0, np.nan], np.float32), np.array([1.0, np.nan, np.nan], np.float32)
    for name in ("maximum", "minimum", "relu"):
        arrays = [x, y][: PRIMITIVES[name].arity]
        op = Pointwise(name, (None,) * len(arrays))
        np.testing.assert_array_equal(run_op(device, op, *arrays)[0], op.reference(arrays)[0])


def test_fused_chain_with_several_outputs_equals_the_steps_bit_for_bit(device):
    x, bias = normal(5, 257), normal(257)
    steps = (Instruction("add", (0, 1)), Instruction("silu", (2,)), Instruction("mul", (3, 0)))
    fused = run_op(device, Fused(Expression(("f32", "f32"), steps, (2, 4))), x, bias)
    a = run_op(device, Pointwise("add", (None, None)), x, bias)[0]
    b = run_op(device, Pointwise("mul", (None, None)), run_op(device, Pointwise("silu", (None,)), a)[0], x)[0]
    np.testing.assert_array_equal(fused[0], a)
    np.testing.assert_array_equal(fused[1], b)


def test_too_many_strides_for_push_constants_are_baked_in(device):
    arrays = [normal(*(2, 3, 5, 7)[::-1]).transpose(3, 2, 1, 0) for _ in range(6)]
    steps = tuple(Instruction("add", (0 if k == 0 else 5 + k, k + 1)) for k in range(5))
    check(device, Fused(Expression(("f32",) * 6, steps, (10,))), *arrays, absolute=2e-6)      # sums of six that may cancel


def test_copy_into_a_strided_target_writes_nothing_else(device):
    from hierarchos.graph.binding import bind
    from tests.support import GARBAGE, Scratch
    x = normal(5, 7)
    for profile in profiles(device):
        memory = Scratch(device)
        source, target = memory.upload(x), memory.reserve(4 * 5 * 12)
        part = Operand((5, 7), "f32", (12, 1))
        launch = copy_launch(In(0), Out(0, 12), source[1], part, profile)
        device.record(bind(Lowering((launch,)), [source], [(target, Operand((5, 12), "f32", (12, 1)))], 0, "copy")).run()
        words = memory.words(target, 4 * 60).reshape(5, 12)
        np.testing.assert_array_equal(words[:, 3:10].view(np.float32), x)
        assert (np.delete(words, range(3, 10), 1) == GARBAGE).all()
        memory.check_guards()


def test_grids_larger_than_the_limit_are_folded(device):
    few = [replace(p, max_groups=3) for p in profiles(device)]
    op, x, column = Pointwise("add", (None, None)), normal(17, 33), normal(17, 1)
    flat = normal(20_001)
    for profile in few:
        np.testing.assert_array_equal(run_op(device, op, x, column, profile=profile)[0], x + column)
        np.testing.assert_array_equal(run_op(device, op, flat, flat, profile=profile)[0], flat + flat)


def test_equal_patterns_share_one_shader():
    add = Expression(("f32", "f32"), (Instruction("add", (0, 1)),), (2,))

    def shader(rows, size):
        x = Operand((rows, size), "f32", row_major((rows, size)))
        return elementwise(add, [x, Operand((size,), "f32", (1,))], [x], Profile()).launches[0].shader
    assert shader(4, 64) is shader(9, 256)
    assert elementwise_shader.cache_info().hits


def test_collapse_merges_axes_that_all_operands_walk_as_one():
    assert collapse((2, 3, 4), [(12, 4, 1), (0, 0, 1)]) == ((6, 4), [(4, 1), (0, 1)])
    assert collapse((1, 1), [(1, 1)]) == ((1,), [(0,)])


@pytest.mark.skipif(shutil.which("spirv-val") is None, reason="spirv-val is not installed")
@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_generated_module_is_valid(tmp_path, name, device_class):
    kind = PRIMITIVES[name].kind
    dtypes = {"where": ("u32", "f32", "f32"), "dropout": ("f32", "u32", "u32")}.get(kind, ("f32",) * max(1, PRIMITIVES[name].arity))
    attributes = {"constant": ("f32", 2.5), "cast": ("i32",), "dropout": (0.1, 3)}.get(kind, ())
    dag = Expression(dtypes, (Instruction(name, tuple(range(PRIMITIVES[name].arity)), attributes),), (len(dtypes),))
    operand = Operand((3, 300), dtypes[0], (300, 1))
    inputs = [replace(operand, dtype=dtype) for dtype in dtypes]
    for inner in (operand, replace(operand, strides=(1, 3))):
        launch, = elementwise(dag, [inner, *inputs[1:]], [replace(operand, dtype=dag.value_dtypes()[-1])], Profile(device_class)).launches
        path = tmp_path / "kernel.spv"
        path.write_bytes(launch.shader.code)
        command = ["spirv-val", "--target-env", "vulkan1.2", "--scalar-block-layout", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
