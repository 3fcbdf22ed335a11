"""Row lookup in a table, and its gradient without atomics or sorting."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.tensor import Spec, Tensor
from hierarchos.kernels.embedding import embedding_gradient_reference, embedding_reference


@dataclass(frozen=True)
class Embedding(Op):
    """Inputs ids i32 [...], table [V, D]; output [..., D]. An id outside the table gives a row of NaN, never a foreign read."""

    def infer(self, inputs):
        ids, table = inputs
        if ids.dtype == "f32" or len(table.shape) != 2:
            raise ShapeError(f"embedding: needs integer ids and a table [V, D], got {ids.dtype} {list(ids.shape)} and {list(table.shape)}")
        return [Spec((*ids.shape, table.shape[1]), table.dtype)]

    def vjp(self, node, gradients):
        ids, table = node.inputs
        if gradients[0] is None:
            return [None, None]
        return [None, apply(EmbeddingGradient(table.shape[0]), gradients[0], ids)[0]]

    def reference(self, inputs):
        return [embedding_reference(*inputs)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.embedding import embedding
        return embedding(inputs, outputs, profile)


@dataclass(frozen=True)
class EmbeddingGradient(Op):
    """Inputs gradient [..., D], ids i32 [...], base [V, D]?; output [V, D]: the sum, in order of position, of the rows of each id.

    With `base` the sums are added to it in place (tied embeddings); the fusion pass makes that of add(gradient, other)."""

    vocabulary: int
    base: bool = False

    def infer(self, inputs):
        return [Spec((self.vocabulary, inputs[0].shape[-1]))]

    def alias(self, slot, inputs):
        return Alias(2, mutates=True) if self.base else None

    def reference(self, inputs):
        return [embedding_gradient_reference(inputs[0], inputs[1], self.vocabulary, inputs[2] if self.base else None)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.embedding import embedding_gradient
        return embedding_gradient(self, inputs, outputs, profile)


def embedding(ids: Tensor, table: Tensor) -> Tensor:
    """Rows of `table` [V, D] for i32 ids [...]; the gradient sums in a fixed order, so it is the same in every run."""
    return apply(Embedding(), ids, table)[0]
