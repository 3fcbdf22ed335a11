"""A two-second test of a device's arithmetic: each kind of kernel, forward and backward, against NumPy in double precision.

A wrong driver is found here, and the kernel named, before a training run depends on it. Sizes lie around the edges of tiles.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.graph.tensor import Graph, Tensor
    from hierarchos.vulkan import Device

TOLERANCE = 2e-5         # of the largest value: float32 sums of 33 to 776 terms stay far below, a wrong kernel far above


@dataclass(frozen=True)
class Outcome:
    """One kernel family: largest error relative to the largest value, or what the device raised."""

    name: str
    error: float
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure and self.error <= TOLERANCE


def selftest(device: Device) -> Iterator[Outcome]:
    """Tests one family after the other, each with its gradients."""
    for name, build in CASES.items():
        try:
            yield Outcome(name, largest_error(device, build))
        except Exception as error:
            yield Outcome(name, float("nan"), f"{type(error).__name__}: {str(error).splitlines()[0]}")


def largest_error(device: Device, build: Callable[[], Tensor]) -> float:
    """Outputs and gradients on the device against float64, relative to the largest value of each."""
    import numpy as np

    from hierarchos.graph.evaluate import evaluate
    from hierarchos.graph.program import compile_program

    graph = with_gradients(build)
    feeds = random_feeds(graph)
    truth, _ = evaluate(graph, feeds, dtype="float64")
    program = compile_program(graph, device, label="self-test")
    try:
        found = program.run(feeds)
    finally:
        program.close()
    worst = 0.0
    for name, exact in truth.items():
        difference = float(np.max(np.abs(found[name] - exact)))
        worst = max(worst, (difference if np.isfinite(difference) else np.inf) / max(1.0, float(np.max(np.abs(exact)))))
    return worst


def with_gradients(build: Callable[[], Tensor]) -> Graph:
    """The graph of a case: its output, and the gradients of the output's squares by every float input."""
    from hierarchos.graph import functions as F
    from hierarchos.graph.autodiff import gradients
    from hierarchos.graph.op import tracing
    from hierarchos.graph.ops.leaf import Input
    from hierarchos.graph.tensor import Graph

    graph = Graph()
    with tracing(graph):
        output = build()
        total = F.sum(output * output, tuple(range(output.rank)), False) if output.rank else output
        leaves = [node.outputs[0] for node in graph.nodes if isinstance(node.op, Input) and node.op.spec.dtype == "f32"]
        graph.outputs["value"] = output
        for leaf, gradient in zip(leaves, gradients(total, leaves), strict=True):
            if gradient is not None:
                graph.outputs[f"gradient of {leaf.node.op.name}"] = gradient
    return graph


def random_feeds(graph: Graph) -> dict[str, np.ndarray]:
    """Normal floats and small counting integers for every input, always the same."""
    import numpy as np

    from hierarchos.graph.ops.leaf import Input

    generator, feeds = np.random.default_rng(7), {}
    for node in graph.nodes:
        if isinstance(node.op, Input):
            shape = node.op.spec.shape
            whole = np.arange(node.op.spec.size, dtype=np.int32).reshape(shape) % 7
            feeds[node.op.name] = whole if node.op.spec.dtype == "i32" else generator.standard_normal(shape).astype(np.float32)
    return feeds


def _inputs(*shapes: tuple[int, ...]) -> list[Tensor]:
    from hierarchos.graph import functions as F

    return [F.input(f"x{number}", shape, "f32") for number, shape in enumerate(shapes)]


def _elementwise() -> Tensor:
    from hierarchos.graph import functions as F

    a, b = _inputs((33, 31), (33, 31))
    return F.exp(a * 0.5) + F.tanh(b) * F.sigmoid(a) + F.erf(a - b) + F.log(a * a + 1.0)


def _sums() -> Tensor:
    from hierarchos.graph import functions as F

    [a] = _inputs((33, 257))
    return F.sum(a, (1,), True) + F.max(a, (1,), True)


def _product() -> Tensor:
    from hierarchos.graph import functions as F

    a, b = _inputs((33, 65), (65, 31))
    return F.matmul(a, b)


def _wide_product() -> Tensor:
    """Large enough for matrix units, where there are any."""
    from hierarchos.graph import functions as F

    a, b = _inputs((520, 776), (776, 513))
    return F.matmul(a, b)


def _linear() -> Tensor:
    from hierarchos.graph import functions as F

    a, weight, bias = _inputs((3, 11, 33), (31, 33), (31,))
    return F.linear(a, weight, bias)


def _norms() -> Tensor:
    from hierarchos.graph import functions as F

    a, weight, bias, scale = _inputs((33, 257), (257,), (257,), (257,))
    return F.layer_norm(a, weight, bias) + F.rms_norm(a, scale)


def _attention() -> Tensor:
    from hierarchos.graph import functions as F

    query, key, value = _inputs((1, 33, 4, 16), (1, 33, 2, 16), (1, 33, 2, 16))
    return F.attention(query, key, value)


def _embedding() -> Tensor:
    from hierarchos.graph import functions as F

    [table] = _inputs((7, 33))
    return F.embedding(F.input("ids", (3, 31), "i32"), table)


def _head() -> Tensor:
    from hierarchos.graph import functions as F

    hidden, weight, token_weights = _inputs((33, 31), (257, 31), (33,))
    loss, _ = F.lm_head_loss(hidden, weight, F.input("targets", (33,), "i32"), token_weights * 0.0 + 1.0)
    return loss


CASES: dict[str, Callable[[], object]] = {
    "elementwise": _elementwise, "sums and maxima": _sums, "matrix product": _product,
    "wide product": _wide_product, "linear": _linear, "norms": _norms, "attention": _attention, "embedding": _embedding,
    "head and cross-entropy": _head,
}
