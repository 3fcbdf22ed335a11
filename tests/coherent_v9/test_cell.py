"""One cell step and all its gradients, against the reference's, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.coherent_v9 import prepare
from hierarchos.models.coherent_v9.cell import CellShape, CellState, cell
from hierarchos.models.coherent_v9.pieces import Weights
from tests.coherent_v9.cases import case, worst


@pytest.mark.parametrize("tag", "abcd")
def test_a_step_and_its_gradients(tag):
    facts = next(entry for entry in case("unit_cell").facts["cases"] if entry["tag"] == tag)
    wanted = case("unit_cell").group(f"{tag}.")
    shape = CellShape(
        "h",
        facts["width"],
        facts["head_size"],
        facts["recurrent_state_clamp"],
        facts["rwkv_channel_mix_key_clamp"],
        facts["rwkv_channel_mix_deepembed_clamp"],
    )
    graph = cell_graph(shape, wanted)
    given = {name: value for name, value in wanted.items() if name.startswith("param.")}
    given |= {name: wanted[name] for name in ("x", "state", "deepembed", "d_out", "d_state_after") if name in wanted}
    found = evaluate(graph, {}, given, "float64")[0]
    error, name = worst(found, {name: wanted[name] for name in found}, 1e-3)
    assert error < 2e-6, name  # the reference is float32: its own rounding


def cell_graph(shape: CellShape, like: dict) -> Graph:
    """Outputs named as in the case."""
    with tracing(Graph()) as graph:
        read = lambda name: F.state(name, like[name].shape)  # noqa: E731
        leaves = {name: read(name) for name in like if name.startswith("param.")}
        w = Weights({})
        w.known = prepare._cell("h", "param", lambda name: leaves[name])
        x, state = read("x"), read("state")
        embedding = read("deepembed") if "deepembed" in like else None
        slots = [F.contiguous(state[:, :, i]) for i in range(4)]
        out, after = cell(shape, w, x, CellState(*slots, F.contiguous(state[:, :, 4:])), embedding)
        packed = F.concat([*(F.reshape(part, (*part.shape, 1)) for part in after.parts()[:4]), after.M], 2)
        wrt = {**{f"grad.{name[6:]}": leaf for name, leaf in leaves.items()}, "d_x": x, "d_state": state}
        wrt |= {} if embedding is None else {"d_deepembed": embedding}
        graph.outputs |= {"out": out, "state_after": packed}
        graph.outputs |= dict(zip(wrt, F.gradients([out, packed], list(wrt.values()), [read("d_out"), read("d_state_after")]), strict=True))
    return graph


def test_the_state_keeps_values_that_are_not_finite():
    from hierarchos.kernels.wkv import limited

    assert np.isnan(limited(np.array([np.nan, 3.0, -9.0]), 2.0)[0])
    assert list(limited(np.array([np.inf, 3.0, -9.0]), 2.0)) == [np.inf, 2.0, -2.0]
