"""Logits of an opened package for given tokens, on a device or with NumPy: what checks of written packages compare."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.family import Model
from hierarchos.models.load import Loaded
from hierarchos.nn.batch import input_batch, logits
from hierarchos.nn.stored import as_stored, place_of

if TYPE_CHECKING:
    from hierarchos.vulkan import Device


def logits_graph(model: Model, rows: int, length: int) -> Graph:
    """Inputs ids, positions, segments; output logits [rows, length, V]."""
    with tracing(Graph()) as graph:
        graph.outputs["logits"] = logits(model.forward(model.weights(), input_batch(rows, length)))
    return graph


def logits_of_package(loaded: Loaded, ids: np.ndarray, device: Device | None) -> np.ndarray:
    """float32 [rows, length, V]; the weights are on the device only as long as this takes."""
    graph = logits_graph(loaded.model, *ids.shape)
    feeds = {"ids": ids, "positions": np.tile(np.arange(ids.shape[1], dtype=np.int32), (len(ids), 1)), "segments": np.ones_like(ids)}
    if device is None:
        from hierarchos.graph.evaluate import evaluate

        states = {spec.name: as_stored(spec, loaded.value(spec.name)) for spec in loaded.model.parameters}
        return evaluate(graph, feeds, states)[0]["logits"]
    from hierarchos.graph.program import compile_program
    from hierarchos.graph.store import StateStore

    store = StateStore(device)
    store.allocate("parameters", {spec.name: place_of(spec) for spec in loaded.model.parameters})
    for spec in loaded.model.parameters:
        store.write(spec.name, as_stored(spec, loaded.value(spec.name)))
    program = compile_program(graph, device, store, label="comparison")
    try:
        return program.run(feeds)["logits"]
    finally:
        program.close()
        store.free("parameters")
