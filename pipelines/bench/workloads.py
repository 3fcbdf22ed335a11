"""What is timed: products, a small MLP and small Transformers, one fp32 training step each.

Sizes are fixed so that the same work can be timed elsewhere; `validation/bench_torch.py` does it in PyTorch.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.weights import ZEROS, Normal, Weights

if TYPE_CHECKING:
    import numpy as np

REPEAT = 2                                          # products in one submission, on both sides of the comparison


@dataclass(frozen=True)
class Sizes:
    """A Transformer workload: `rows` sequences of `length` tokens."""

    layers: int
    width: int
    inner: int
    heads: int
    vocabulary: int
    rows: int
    length: int
    key_heads: int = 0                              # 0: as many as heads
    tied: bool = False                              # the head is the embedding

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def keys(self) -> int:
        return self.key_heads or self.heads


@dataclass(frozen=True)
class Workload:
    """`trace(w)` gives the scalar loss of a training step, or the result of a product when `trains` is false."""

    name: str
    what: str
    trace: Callable[[Weights], Tensor]
    feeds: Callable[[np.random.Generator], dict[str, np.ndarray]]
    trains: bool = True                             # with an AdamW step
    gradients: bool = False                         # without one: gradients of all parameters, nothing updated
    sizes: Sizes | None = None


def product(n: int) -> Workload:
    """C = A B, all n x n."""
    def trace(w: Weights) -> Tensor:
        return F.matmul(w.parameter("a", (n, n), Normal(1.0)), w.parameter("b", (n, n), Normal(1.0)))

    return Workload(f"matmul{n}", f"{n} x {n} x {n} product", trace, lambda rng: {}, trains=False)


def mlp(rows: int = 64, inputs: int = 256, hidden: int = 512, classes: int = 10) -> Workload:
    """Linear, ReLU, Linear, cross-entropy."""
    def trace(w: Weights) -> Tensor:
        x = F.relu(w.linear("up", F.input("x", (rows, inputs)), hidden, bias=True))
        return head_loss(w, x, classes, rows, bias=True)

    def feeds(rng: np.random.Generator) -> dict:
        return {"x": rng.standard_normal((rows, inputs)).astype("float32"), **targets(rng, classes, rows)}

    return Workload("mlp", f"MLP {inputs}-{hidden}-{classes}, batch {rows}", trace, feeds)


def gpt(name: str, s: Sizes) -> Workload:
    """GPT-2-like: layer norms, tanh GELU, learned positions, an untied head with bias."""
    def trace(w: Weights) -> Tensor:
        ids = F.input("ids", (s.rows, s.length), "i32")
        x = w.embedding("tokens", ids, s.vocabulary, s.width) + w.parameter("positions", (s.length, s.width))
        for index in range(s.layers):
            layer = w.at("layers", index)
            h = layer.layer_norm("norm1", x, 1e-5)
            q, k, v = (heads(layer.linear(part, h, s.width, bias=True), s) for part in "qkv")
            x = x + layer.linear("o", merged(F.attention(q, k, v), s), s.width, bias=True)
            h = F.gelu_tanh(layer.linear("up", layer.layer_norm("norm2", x, 1e-5), s.inner, bias=True))
            x = x + layer.linear("down", h, s.width, bias=True)
        return head_loss(w, rows_of(w.layer_norm("norm", x, 1e-5)), s.vocabulary, s.rows * s.length, bias=True)

    return Workload(name, describe("GPT-2-like", s), trace, lambda rng: token_feeds(rng, s), sizes=s)


def llama(name: str, s: Sizes) -> Workload:
    """RMS norms, rotary positions on adjacent pairs, grouped queries, gated SiLU MLP, a head without bias."""
    def trace(w: Weights) -> Tensor:
        ids, positions = (F.input(part, (s.rows, s.length), "i32") for part in ("ids", "positions"))
        cos, sin = (F.constant(table) for table in rotary_tables(s.length, s.width // s.heads))
        x = w.embedding("tokens", ids, s.vocabulary, s.width)
        for index in range(s.layers):
            layer = w.at("layers", index)
            h = layer.rms_norm("norm1", x, 1e-5)
            counts = {"q": s.heads, "k": s.keys, "v": s.keys}
            q, k, v = (heads(layer.linear(part, h, count * s.head_width), s, count) for part, count in counts.items())
            q, k = (F.rope(t, cos, sin, positions, layout="interleaved") for t in (q, k))
            x = x + layer.linear("o", merged(F.attention(q, k, v), s), s.width)
            h = layer.rms_norm("norm2", x, 1e-5)
            x = x + layer.linear("down", F.silu(layer.linear("gate", h, s.inner)) * layer.linear("up", h, s.inner), s.width)
        head = "tokens.weight" if s.tied else "head.weight"
        return head_loss(w, rows_of(w.rms_norm("norm", x, 1e-5)), s.vocabulary, s.rows * s.length, bias=False, head=head)

    def feeds(rng: np.random.Generator) -> dict:
        import numpy as np
        return token_feeds(rng, s) | {"positions": np.tile(np.arange(s.length, dtype=np.int32), (s.rows, 1))}

    return Workload(name, describe("Llama", s), trace, feeds, sizes=s)


def attention(rows: int = 1, length: int = 2048, count: int = 16, width: int = 64) -> Workload:
    """Causal attention forward and backward: gradients of q, k and v."""
    shape = (rows, length, count, width)

    def trace(w: Weights) -> Tensor:
        import numpy as np
        q, k, v = (w.parameter(name, shape, Normal(1.0)) for name in "qkv")
        gradient = F.constant(np.random.default_rng(0).standard_normal(shape, np.float32))
        return F.sum(F.attention(q, k, v) * gradient, (0, 1, 2, 3), False)

    return Workload(f"attention{length}", f"attention {length} x {count} x {width}, forward and backward", trace, lambda rng: {},
                    trains=False, gradients=True)


def head_loss(w: Weights, x: Tensor, classes: int, rows: int, bias: bool, head: str = "head.weight") -> Tensor:
    """Mean cross-entropy of x [rows, D] through a head [classes, D]."""
    weight = w.parameter(head, (classes, x.shape[-1]))
    offset = w.parameter("head.bias", (classes,), ZEROS) if bias else None
    return F.lm_head_loss(x, weight, F.input("targets", (rows,), "i32"), F.input("token_weights", (rows,)), bias=offset)[0]


def heads(x: Tensor, s: Sizes, count: int = 0) -> Tensor:
    return F.reshape(x, (s.rows, s.length, count or s.heads, s.head_width))


def merged(x: Tensor, s: Sizes) -> Tensor:
    return F.reshape(x, (s.rows, s.length, s.width))


def rows_of(x: Tensor) -> Tensor:
    return F.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def rotary_tables(length: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin [length, width / 2] of base 10000."""
    import numpy as np

    angles = np.arange(length)[:, None] * 10000.0 ** (-np.arange(width // 2) / (width // 2))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def token_feeds(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    ids = rng.integers(0, s.vocabulary, (s.rows, s.length)).astype("int32")
    return {"ids": ids, **targets(rng, s.vocabulary, s.rows * s.length)}


def targets(rng: np.random.Generator, classes: int, rows: int) -> dict[str, np.ndarray]:
    import numpy as np

    return {"targets": rng.integers(0, classes, rows).astype(np.int32), "token_weights": np.full(rows, 1 / rows, np.float32)}


def describe(kind: str, s: Sizes) -> str:
    return f"{kind} {s.layers} layers, d={s.width}, V={s.vocabulary}, {s.rows} x {s.length} tokens"


WORKLOADS = {w.name: w for w in (
    product(512), product(1024), product(4096), mlp(), attention(),
    gpt("gpt256", Sizes(2, 128, 512, 4, 256, 1, 64)), gpt("gpt", Sizes(2, 128, 512, 4, 1000, 1, 64)),
    llama("llama256", Sizes(2, 128, 352, 4, 256, 1, 64)), llama("llama", Sizes(2, 128, 352, 4, 1000, 1, 64)),
    llama("llama-4x256", Sizes(4, 256, 688, 8, 4096, 8, 128)),
    llama("smollm2-135m-4x512", Sizes(30, 576, 1536, 9, 49152, 4, 512, 3, tied=True)),
    llama("smollm2-135m-8x1024", Sizes(30, 576, 1536, 9, 49152, 8, 1024, 3, tied=True)),
    llama("tinyllama-1.1b-4x1024", Sizes(22, 2048, 5632, 32, 32000, 4, 1024, 4)),
)}
DEFAULT = ("matmul512", "mlp", "gpt256", "llama")
