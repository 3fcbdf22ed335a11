"""Every architecture in float64 against Transformers in float64: hidden states or logits, loss, every gradient.

    pytest tests/models/test_against_transformers.py -k "gemma3"

Needs torch and transformers, and is skipped without them: test_golden.py checks the same against stored results.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.aliases import TEXTS
from hierarchos.models.registry import FAMILIES, resolve
from hierarchos.nn.batch import input_batch, logits, token_loss
from validation import reference
from validation.tiny import batch, table, variants

VARIANTS = [tiny for model_type in table() if model_type in (*FAMILIES, *TEXTS) for tiny in variants(model_type)]
SHAPES = [(7, "right"), (72, "left")]
# Both sides do the same mathematics in float64 with the same float32 rotary tables: only the order of sums differs.
TOLERANCE = 1e-10


def run_ours(model, values: dict, arrays: dict, with_logits: bool) -> tuple[np.ndarray, float, dict]:
    """Logits [B,T,V] (or hidden states), loss and gradients by name (None: the loss does not depend on it), in float64."""
    rows, length = arrays["ids"].shape
    with tracing(Graph()) as graph:
        w = model.weights()
        output = model.forward(w, input_batch(rows, length))
        graph.outputs["result"] = logits(output) if with_logits else output.hidden
        graph.outputs["loss"] = traced_loss(output, rows * length) if with_logits else F.mean(output.hidden * output.hidden, (0, 1, 2))
        found = F.gradients(graph.outputs["loss"], [tensor for _, tensor in w.table.values()])
        graph.outputs |= {f"gradient {name}": gradient for name, gradient in zip(w.table, found, strict=True) if gradient is not None}
    values = {spec.name: np.zeros(spec.shape) for spec in w.specs} | values     # a bare model of the reference has no head
    weights = arrays["token_weights"] / arrays["token_weights"].sum(dtype=np.float64)
    results, _ = evaluate(graph, {**arrays, "targets": arrays["targets"].ravel(), "token_weights": weights.ravel()}, values, "float64")
    return results["result"], float(results["loss"]), {name: results.get(f"gradient {name}") for name in w.table}


def traced_loss(output, tokens: int):
    return token_loss(output, F.input("targets", (tokens,), "i32"), F.input("token_weights", (tokens,)))[0]


def run_theirs(model, arrays: dict) -> tuple[np.ndarray, float, dict]:
    """The same of the reference."""
    with reference.ExactTables():
        output = model(**reference.inputs(model, arrays))
        with_logits = "logits" in output
        loss = output.loss if with_logits else (output.last_hidden_state ** 2).mean()
        loss.backward()
    result = output.logits if with_logits else output.last_hidden_state
    return result.detach().numpy(), loss.item(), reference.gradients(model)


@pytest.mark.parametrize(("length", "padding"), SHAPES)
@pytest.mark.parametrize("tiny", VARIANTS, ids=lambda tiny: f"{tiny.model_type}-{tiny.name}")
def test_architecture_computes_what_the_reference_computes(tiny, length, padding):
    arrays = batch(tiny, length, padding)
    theirs = reference.build(tiny)
    with_logits = tiny.auto != "AutoModel" and "TextModel" not in (tiny.class_name or "")
    if not with_logits:
        arrays["segments"][:], arrays["positions"][:] = 1, np.arange(length)    # a mean over hidden states sees padding too
        arrays["ids"] = np.maximum(arrays["ids"], 6)
    result, loss, gradients = run_theirs(theirs, arrays)
    ours, our_loss, our_gradients = run_ours(resolve(tiny.raw), renamed(reference.values(theirs), with_logits), arrays, with_logits)

    valid = arrays["segments"] > 0
    np.testing.assert_allclose(ours[valid], result[valid], rtol=TOLERANCE, atol=TOLERANCE * max(1, abs(result).max()))
    assert our_loss == pytest.approx(loss, rel=TOLERANCE)
    for name, expected in renamed(gradients, with_logits).items():
        if name not in our_gradients and expected is None:
            continue                                                            # a tower for images or sound
        found = our_gradients.pop(name)
        assert (found is None) == (expected is None), f"{name}: one side has no gradient"
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE * max(1, abs(expected).max()), err_msg=name)
    assert not [name for name, gradient in our_gradients.items() if gradient is not None], "gradients that the reference does not have"


def renamed(by_name: dict, with_logits: bool) -> dict:
    """Names of a bare model -> names of the whole one."""
    return by_name if with_logits else {f"model.{name}": value for name, value in by_name.items()}


@pytest.mark.parametrize("tiny", VARIANTS, ids=lambda tiny: f"{tiny.model_type}-{tiny.name}")
def test_config_reads_the_same_from_the_table_and_as_the_reference_writes_it(tiny):
    import transformers

    config = transformers.CONFIG_MAPPING[tiny.model_type](**tiny.config)
    for use_diff in (False, True):
        written = json.loads(config.to_json_string(use_diff=use_diff))
        assert resolve({**written, "model_type": tiny.model_type}).config == resolve(tiny.raw).config
