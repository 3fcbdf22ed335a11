"""Programs over one store share the memory of their activations."""
import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph
from hierarchos.vulkan import FailAllocation, OutOfMemory


def doubled(size):
    """Twice x, through a buffer of `size` floats."""
    with tracing(Graph()) as graph:
        x = F.input("x", (size // 2,))
        graph.outputs["y"] = F.concat([x, x], 0)[: size // 2] * 2.0
    return graph


def run(program):
    (size,) = program.plan.declared["x"].shape
    x = np.arange(size, dtype="float32")
    np.testing.assert_array_equal(program.run({"x": x})["y"], 2 * x)


def test_a_larger_program_moves_the_memory_and_the_smaller_one_follows(device):
    store = StateStore(device)
    before = device.memory.used
    small = compile_program(doubled(128), device, store)
    run(small)
    large = compile_program(doubled(4096), device, store)
    for program in (small, large, small):
        run(program)
    assert store.scratch.nbytes == large.plan.arena.nbytes
    large.close()
    run(small)
    small.close()
    assert device.memory.used == before and not store.scratch.blocks


def test_a_program_that_does_not_fit_leaves_the_others_running(device):
    store = StateStore(device)
    small = compile_program(doubled(128), device, store)
    device.inject(FailAllocation(3))                # inputs and outputs fit, activations do not
    with pytest.raises(OutOfMemory):
        compile_program(doubled(4096), device, store)
    run(small)
    small.close()
