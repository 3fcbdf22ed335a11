"""Cheap results are computed again for the backward pass: the same numbers, less memory."""
import numpy as np
import pytest

from hierarchos.graph import passes, recompute
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.ops.norm import Norm
from hierarchos.graph.passes import optimise
from hierarchos.graph.plan import plan_program
from hierarchos.kernels.launch import Profile
from tests.graph.test_whole_step import families, lay_out, numpy_states, step, values


@pytest.fixture(params=[False, True])
def layout_and_graph(request, family):
    layout = StoreLayout()
    return layout, step(family, lay_out(family, layout), request.param)


@pytest.fixture
def eager(monkeypatch):
    """As if every tensor were large."""
    monkeypatch.setattr(passes, "compute_again", lambda graph, overlap: recompute.compute_again(graph, overlap, least_bytes=0))


@families
def test_numbers_stay_the_same(family, layout_and_graph, eager):
    layout, graph = layout_and_graph
    feeds, parameters = values(family)
    plain, again = (evaluate(g, feeds, numpy_states(layout, parameters, "float64"), "float64") for g in (graph, optimise(graph, layout)))
    for before, after in zip(plain, again, strict=True):
        for name, array in before.items():
            np.testing.assert_allclose(after[name], array, rtol=1e-9, atol=1e-12, err_msg=name)


@families
def test_norms_are_computed_twice(family, monkeypatch):
    layout = StoreLayout()
    graph = step(family, lay_out(family, layout))
    kept = plan_program(graph, Profile(), layout)
    monkeypatch.setattr(passes, "compute_again", lambda graph, overlap: recompute.compute_again(graph, overlap, least_bytes=0))
    again = plan_program(graph, Profile(), layout)
    norms = [sum(isinstance(node.op, Norm) for node in plan.graph.nodes) for plan in (kept, again)]
    assert norms[1] > norms[0]


def test_small_tensors_are_kept():
    layout = StoreLayout()
    graph = step("llama", lay_out("llama", layout))
    assert recompute.compute_again(graph, layout.overlap) is graph
