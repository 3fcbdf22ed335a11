"""Every derivative against central differences in float64, through the NumPy twins."""
import numpy as np
import pytest

from hierarchos.graph import functions as F
from hierarchos.graph.autodiff import checkpoint, gradients
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph

STEP = 1e-5                                         # cube root of float64's precision: error about 1e-10 of the second derivative


def seed_words():
    return F.constant(np.array([7, 9], "uint32"))


def ids(*values):
    return F.constant(np.array(values, "int32"))


def rope_tables(positions, half):
    angle = np.arange(positions)[:, None] * 0.3 ** np.arange(half)
    return F.constant(np.cos(angle).astype("float32")), F.constant(np.sin(angle).astype("float32"))


def rope_case(layout):
    return lambda x: F.rope(x, *rope_tables(9, 2), F.constant(np.array([[0, 3, 8]], "int32")), layout=layout)


def attention_case(**options):
    return lambda q, k, v: F.attention(q, k, v, **{name: option() if callable(option) else option for name, option in options.items()})


def segments(*rows):
    return lambda: F.constant(np.array(rows, "int32"))


def lm_head_case(**options):
    return lambda x, w, t: F.lm_head_loss(x, w, ids(2, -100, 0), t, **options)[0]


def lm_head_rows(x, w, b):
    loss, rows = F.lm_head_loss(x, w, ids(1, 4, -100), F.constant(np.array([1.0, 0.5, 1.0])), b)
    return rows * 0.3 + loss


UNARY = ("neg", "exp", "log", "tanh", "erf", "sqrt", "rsqrt", "sin", "cos", "sigmoid", "silu", "gelu", "gelu_tanh", "relu")
BINARY = ("add", "sub", "mul", "div", "power", "maximum", "minimum")
# name -> (function of tensors, shapes of its inputs); inputs are uniform in 0.3 .. 1.8, away from kinks and poles
CASES = {
    **{name: (getattr(F, name), [(2, 3)]) for name in UNARY},
    **{name: (getattr(F, name), [(2, 3), (3,)]) for name in BINARY},
    "numbers": (lambda x: 2.0 / (1.0 - x) ** 2 + x ** 1.5 - 3 * x, [(2, 3)]),
    "where": (lambda a, b: F.where(F.gt(a, 1.0), a * b, b), [(3, 4), (1, 4)]),
    "reshape": (lambda x: F.reshape(x, (3, 2)) * F.reshape(x, (3, 2)), [(2, 3)]),
    "transpose": (lambda x, y: F.transpose(x, (2, 0, 1)) * y, [(2, 3, 4), (4, 2, 3)]),
    "expand": (lambda x, y: F.expand(x, (4, 2, 3)) * y, [(2, 1), (4, 2, 3)]),
    "split": (lambda x: F.concat([a * a for a in F.split(x, (1, 2, 2), 1)][::-1][:2], 1), [(3, 5)]),
    "slice": (lambda x: x[1:, -1] * 2.0, [(3, 4)]),
    "pad": (lambda x: F.pad(x, 1, 1, 2, 3.0) ** 2, [(2, 3)]),
    "contiguous": (lambda x: F.contiguous(F.transpose(x)) ** 2, [(2, 3)]),
    "gather_rows": (lambda x: F.gather_rows(x, ids(2, 0, 2)) ** 2, [(3, 2, 2)]),
    "sum": (lambda x: F.sum(x * x, (0, 2), True), [(2, 3, 4)]),
    "max": (lambda x: F.max(x * x, 1), [(2, 5)]),
    "mean": (lambda x: F.mean(x * x), [(2, 5)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, w, b, eps=1e-2), [(3, 5), (5,), (5,)]),
    "layer_norm bare": (lambda x: F.layer_norm(x, eps=1e-2), [(3, 5)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, w, eps=1e-2, weight_offset=1.0), [(2, 2, 5), (5,)]),
    "embedding": (lambda table: F.embedding(ids(1, 3, 1), table) ** 2, [(4, 3)]),
    "dropout": (lambda x: F.dropout(x, 0.4, seed_words(), 3) ** 2, [(4, 5)]),
    "matmul": (F.matmul, [(2, 3, 4), (2, 4, 5)]),
    "matmul shared": (F.matmul, [(2, 3, 4), (4, 5)]),
    "matmul tt": (lambda a, b: F.matmul(a, b, True, True), [(2, 4, 3), (2, 5, 4)]),
    "matmul nt": (lambda a, b: F.matmul(a, b, False, True), [(2, 3, 4), (5, 4)]),
    "matmul tn": (lambda a, b: F.matmul(a, b, True, False), [(2, 4, 3), (4, 5)]),
    "linear": (F.linear, [(2, 3, 4), (5, 4), (5,)]),
    "linear in_out": (lambda x, w: F.linear(x, w, layout="in_out"), [(2, 3, 4), (4, 5)]),
    "lm_head": (lm_head_case(), [(3, 4), (5, 4), (3,)]),
    "lm_head softcap": (lm_head_case(scale=0.7, softcap=2.0), [(3, 4), (5, 4), (3,)]),
    "lm_head rows": (lm_head_rows, [(3, 4), (5, 4), (5,)]),
    "rope half": (rope_case("half"), [(1, 3, 2, 6)]),
    "rope interleaved": (rope_case("interleaved"), [(1, 3, 2, 6)]),
    "attention": (attention_case(), [(2, 4, 4, 3), (2, 4, 2, 3), (2, 4, 2, 3)]),
    "attention window": (attention_case(window=2, scale=0.4), [(1, 5, 2, 3)] * 3),
    "attention full": (attention_case(causal=False), [(1, 3, 2, 3), (1, 5, 2, 3), (1, 5, 2, 3)]),
    "attention segments": (attention_case(segments_q=segments([1, 1, 2, 0]), segments_k=segments([1, 1, 2, 0])), [(1, 4, 2, 3)] * 3),
    "attention dropout": (attention_case(dropout=0.3, seed=seed_words), [(1, 4, 2, 3)] * 3),
}


def traced(function, shapes, differentiate):
    """A graph with outputs "loss" and, when asked, "d0", "d1" ...: the gradients of a weighted sum of the function."""
    with tracing(Graph()) as graph:
        inputs = [F.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
        result = function(*inputs)
        weights = np.cos(np.arange(result.spec.size) + 1.0).reshape(result.shape)
        graph.outputs["loss"] = loss = F.sum(result * F.constant(weights))
        found = gradients(loss, inputs) if differentiate else []
        graph.outputs |= {f"d{i}": g for i, g in enumerate(found) if g is not None}
    return graph


def central_differences(graph, feeds, name):
    slope = np.zeros_like(feeds[name])
    for index in np.ndindex(slope.shape):
        def loss(step, index=index):
            moved = feeds[name].copy()
            moved[index] += step
            return evaluate(graph, feeds | {name: moved}, dtype="float64")[0]["loss"]
        slope[index] = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    return slope


@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_central_differences(case):
    function, shapes = CASES[case]
    random = np.random.default_rng(5)
    feeds = {f"x{i}": random.uniform(0.3, 1.8, shape) for i, shape in enumerate(shapes)}
    outputs, _ = evaluate(traced(function, shapes, True), feeds, dtype="float64")
    plain = traced(function, shapes, False)
    for i in range(len(shapes)):
        truth = central_differences(plain, feeds, f"x{i}")
        np.testing.assert_allclose(outputs[f"d{i}"], truth, rtol=1e-6, atol=1e-8, err_msg=f"{case}: input {i}")


def test_no_gradient_is_none_and_unused_paths_are_left_alone():
    with tracing(Graph()):
        a, b = F.input("a", (3,)), F.input("b", (3,))
        assert gradients(F.sum(a * a), [b, a])[0] is None


def test_states_of_one_name_share_a_gradient():
    with tracing(Graph()) as graph:
        first, second = F.state("w", (3,)), F.state("w", (3,))
        graph.outputs["g"] = gradients(F.sum(first * second), [first])[0]
    assert evaluate(graph, {}, {"w": np.array([1.0, 2, 3])}, "float64")[0]["g"].tolist() == [2, 4, 6]


def block(x, w):
    return x + F.tanh(x * w) * F.sigmoid(x)


def test_recomputed_regions_give_the_same_gradients_from_cloned_nodes():
    def build(recompute):
        with tracing(Graph()) as graph:
            x, w = F.input("x", (4,)), F.state("w", (4,))
            h = x
            for _ in range(2):
                if recompute:
                    with checkpoint("layer"):
                        h = block(h, w)
                else:
                    h = block(h, w)
            graph.outputs["g"] = gradients(F.sum(h), [w])[0]
        return graph
    feeds, states = {"x": np.linspace(-1, 1, 4, dtype="float32")}, {"w": np.ones(4, "float32")}
    plain, again = build(False), build(True)
    np.testing.assert_array_equal(evaluate(plain, feeds, states)[0]["g"], evaluate(again, feeds, states)[0]["g"])
    regions = {node.region for node in again.nodes if node.region}
    assert regions == {"layer", "layer (2)", "layer recomputed", "layer (2) recomputed"}
