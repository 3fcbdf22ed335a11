"""A table of small uses of every operation, for derivative, fusion and device tests alike."""
import numpy as np

from hierarchos.graph import functions as F
from hierarchos.graph.autodiff import gradients
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph


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


UNARY = ("neg", "exp", "log", "tanh", "erf", "sqrt", "rsqrt", "sin", "cos", "sigmoid", "silu", "gelu", "gelu_tanh", "relu",
         "relu_squared", "expm1", "softplus")
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
    "layer_norm offset": (lambda x, w: F.layer_norm(x, w, eps=1e-2, weight_offset=1.0), [(3, 5), (5,)]),
    "clamp": (lambda x: F.clamp(x - 1.0, 0.4) ** 2, [(3, 4)]),
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
    "attention softcap": (attention_case(softcap=0.7), [(1, 4, 4, 3), (1, 4, 2, 3), (1, 4, 2, 3)]),
    "attention slopes": (attention_case(slopes=lambda: F.constant(np.array([0.5, 0.1], np.float32))), [(1, 4, 2, 3)] * 3),
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


def feeds_of(case: str, dtype: str = "float32") -> dict:
    """Inputs of a case, uniform in 0.3 .. 1.8, the same in every run."""
    random = np.random.default_rng(5)
    return {f"x{i}": random.uniform(0.3, 1.8, shape).astype("float32").astype(dtype) for i, shape in enumerate(CASES[case][1])}
