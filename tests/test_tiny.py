"""A tour: from an expression to a trained model in a package. Each test needs only what the ones before it showed."""
import numpy as np

from hierarchos.graph import functions as F
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph, Spec

X = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def squares():
    """A graph: the sum of (x w)^2, and its gradient by w."""
    with tracing(Graph()) as graph:
        x, w = F.input("x", (2, 2)), F.state("w", (2, 2))
        loss = F.sum((x @ w) ** 2)
        graph.outputs["loss"] = loss
        graph.outputs["gradient"] = F.gradients(loss, [w])[0]
    return graph


def test_a_graph_is_traced_from_ordinary_code_and_computes_nothing():
    graph = squares()
    assert graph.outputs["loss"].shape == () and graph.outputs["gradient"].shape == (2, 2)


def test_numpy_twins_compute_it_in_any_precision():
    results, _ = evaluate(squares(), {"x": X.astype(np.float64)}, {"w": np.eye(2)})
    assert results["loss"] == np.sum(X**2)
    np.testing.assert_allclose(results["gradient"], 2 * X.T @ X)


def test_a_device_computes_the_same_from_one_recording(device):
    store = StateStore(device)
    store.allocate("parameters", {"w": Spec((2, 2))})
    store.write("w", np.eye(2, dtype=np.float32))
    program = compile_program(squares(), device, store)
    assert program.plan.peak_bytes == program.allocated_bytes                   # known before anything was allocated
    first, again = program.run({"x": X}), program.run({"x": X})
    np.testing.assert_allclose(first["gradient"], 2 * X.T @ X, rtol=1e-6)
    assert first["gradient"].tobytes() == again["gradient"].tobytes()            # the same bits every time


def test_states_change_where_a_graph_assigns_them(device):
    store = StateStore(device)
    store.allocate("counters", {"count": Spec((1,))})
    with tracing(Graph()) as graph:
        count = F.state("count", (1,))
        F.assign(count, count + 1.0)
    program = compile_program(graph, device, store)
    for _ in range(3):
        program.run()
    assert store.read("count") == [3.0]


def test_a_model_is_a_function_over_named_weights():
    from hierarchos.models.registry import resolve, tiny_config

    model = resolve(tiny_config("llama_tiny"))
    names = [spec.name for spec in model.parameters]
    assert names[0] == "model.embed_tokens.weight" and "model.layers.3.mlp.down_proj.weight" in names


def test_training_lowers_the_loss_and_the_package_gives_it_back(tiny_trainer, device, tmp_path):
    from hierarchos.models.load import load_model, save_model

    trainer = tiny_trainer(steps=12, learning_rate=1e-2)
    trainer.start(trainer.model.initial_values(0))
    before = trainer.step.evaluate([trainer.train_batches.batch(n) for n in range(4)])
    trainer.run()
    assert trainer.step.evaluate([trainer.train_batches.batch(n) for n in range(4)]) < before

    values = {spec.name: trainer.state.store.read(spec.name) for spec in trainer.state.specs}
    save_model(tmp_path / "package", trainer.model, values)
    loaded = load_model(tmp_path / "package").values()
    assert all(loaded[name].tobytes() == values[name].tobytes() for name in values)
