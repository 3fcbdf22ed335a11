"""The modules of a model as a trace meets them: what an adapter can be put on."""
from __future__ import annotations

from dataclasses import dataclass, field, replace

from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph, Tensor
from hierarchos.models.family import Model
from hierarchos.nn.batch import input_batch
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class Site:
    """A module by its full name. kind: linear, embedding, norm, head. shape: of its weight; parameters: full names of all that it has.

    layout: "in_out" where the weight of a linear lies as [in, out]."""

    name: str
    kind: str
    shape: tuple[int, ...]
    layout: str = "out_in"
    parameters: tuple[str, ...] = ()

    @property
    def inner(self) -> int:
        """Width of what goes in (entries of an embedding)."""
        return self.shape[0] if self.layout == "in_out" or self.kind == "embedding" else self.shape[1]

    @property
    def outer(self) -> int:
        """Width of what comes out."""
        return self.shape[1] if self.layout == "in_out" or self.kind == "embedding" else self.shape[0]


@dataclass(eq=False)
class Recorder(Weights):
    """Notes every linear layer and embedding that is applied. Norms are told by their weights: models call them as functions."""

    kinds: dict[str, tuple[str, str]] = field(default_factory=dict)

    def linear(self, leaf: str, x: Tensor, width: int, bias: bool = False, layout: str = "out_in", std=None) -> Tensor:
        self.kinds.setdefault(self.name(leaf), ("linear", layout))
        return super().linear(leaf, x, width, bias, layout, std)

    def embedding(self, leaf: str, ids: Tensor, count: int, width: int, std=None) -> Tensor:
        self.kinds.setdefault(self.name(leaf), ("embedding", "out_in"))
        return super().embedding(leaf, ids, count, width, std)


def sites_of(model: Model) -> dict[str, Site]:
    """Every module with a weight, by full name, in the order of the computation; the output head last."""
    w = Recorder(std=model.config.initializer_range)
    with tracing(Graph()):
        output = model.forward(w, input_batch(1, 1))
    shapes = {spec.name: spec.shape for spec in w.specs}
    head, found = model.family.head.removesuffix(".weight"), {}
    for full, shape in shapes.items():
        name, _, last = full.rpartition(".")
        kind, layout = w.kinds.get(name, ("norm" if len(shape) == 1 else None, "out_in"))
        if (last == "weight" and kind and name != head) or name in w.kinds:
            parameters = tuple(other for other in shapes if other.rpartition(".")[0] == name)
            found.setdefault(name, Site(name, kind, shapes[f"{name}.weight"], layout, parameters))
    if head in found:
        found[head] = replace(found.pop(head), kind="head")
    else:
        own = tuple(full for full in shapes if full.rpartition(".")[0] == head)
        found[head] = Site(head, "head", output.head.shape, "out_in", own)
    return found
