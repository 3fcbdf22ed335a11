"""Logits, loss and gradients of Transformers in float64, from golden.npz (`python -m validation.golden` writes it)."""
from pathlib import Path

import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.nn.batch import input_batch, token_loss
from tests.models.twin import CONFIGS, GOLDEN_IDS, model_and_values, probe, run_logits

GOLDEN = np.load(Path(__file__).with_name("golden.npz"))
ROUNDING = 1e-6      # both are float64; the rotary tables are float32 on our side


@pytest.mark.parametrize("name", CONFIGS)
def test_logits(name):
    model, values = model_and_values(name)
    assert np.abs(run_logits(model, values, GOLDEN_IDS) - GOLDEN[f"{name}/logits"]).max() < ROUNDING


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_every_gradient(name):
    model, values = model_and_values(name)
    rows, length = GOLDEN_IDS.shape
    targets = np.concatenate([GOLDEN_IDS[:, 1:], np.full((rows, 1), -100)], axis=1).astype(np.int32).reshape(-1)
    with tracing(Graph()) as graph:
        w = model.weights()
        output = model.forward(w, input_batch(rows, length))
        loss, _ = token_loss(output, F.input("targets", (rows * length,), "i32"), F.input("token_weights", (rows * length,)))
        names = [spec.name for spec in w.specs]
        found = F.gradients(loss, [tensor for _, tensor in w.table.values()])
        graph.outputs = {"loss": loss, **dict(zip(names, found, strict=True))}
    positions, segments = np.tile(np.arange(length, dtype=np.int32), (rows, 1)), np.ones((rows, length), np.int32)
    feeds = {"ids": GOLDEN_IDS, "positions": positions, "segments": segments,
             "targets": targets, "token_weights": (targets >= 0) / (targets >= 0).sum()}
    results = evaluate(graph, feeds, values, "float64")[0]
    assert results["loss"] == pytest.approx(GOLDEN[f"{name}/loss"], abs=ROUNDING)
    for key in names:
        found = (results[key] * probe(key, results[key].shape)).sum()
        assert found == pytest.approx(GOLDEN[f"{name}/gradient {key}"], abs=20 * ROUNDING), key
