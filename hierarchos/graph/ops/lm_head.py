"""LM head and cross-entropy in one op that never stores the logits.

    z   = softcap(scale * (x W^T + bias))          softcap(v) = c tanh(v / c), or v when there is none
    nll = logsumexp(z) - z[target]                 0 where target = -100
    loss = sum(token_weights * nll)

Rows are handled in chunks of at most `profile.chunk_bytes` of logits. The gradients come almost for free where the
logits are: `vjp` therefore turns the forward node itself into one that also gives d loss / d x, d W and d bias (the
logits are computed once); a graph that is never differentiated computes the loss alone.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.graph.op import Op, ShapeError, apply
from hierarchos.graph.tensor import Node, Spec, Tensor

IGNORED = -100


@dataclass(frozen=True)
class LmHeadLoss(Op):
    """Inputs x [N,D], weight [V,D], targets i32 [N], token_weights [N], then bias [V] when `has_bias`.

    Outputs loss [], nll [N]; with_gradients adds dx [N,D], dweight [V,D] and, when `has_bias`, dbias [V]: the
    gradients of `loss`. weight_gradient=False: nobody reads dweight (a frozen head), and it is empty, [0,D]."""

    scale: float = 1.0
    softcap: float | None = None
    has_bias: bool = False
    with_gradients: bool = False
    weight_gradient: bool = True

    def infer(self, inputs: list[Spec]) -> list[Spec]:
        x, weight, targets, token_weights = inputs[:4]
        if len(x.shape) != 2 or len(weight.shape) != 2 or x.shape[1] != weight.shape[1]:
            raise ShapeError(f"lm_head_loss: x must be [N, D] and weight [V, D]; got {list(x.shape)} and {list(weight.shape)}")
        rows, vocabulary = x.shape[0], weight.shape[0]
        if targets != Spec((rows,), "i32"):
            raise ShapeError(f"lm_head_loss: targets must be i32 [{rows}]; got {targets.dtype} {list(targets.shape)}")
        if token_weights != Spec((rows,)):
            raise ShapeError(f"lm_head_loss: token_weights must be f32 [{rows}]; got {token_weights.dtype} {list(token_weights.shape)}")
        if self.has_bias and inputs[4] != Spec((vocabulary,)):
            raise ShapeError(f"lm_head_loss: bias must be f32 [{vocabulary}]; got {inputs[4].dtype} {list(inputs[4].shape)}")
        out = [Spec(()), Spec((rows,))]
        if self.with_gradients:
            out += [x, weight if self.weight_gradient else Spec((0, weight.shape[1]))] + [Spec((vocabulary,))] * self.has_bias
        return out

    def vjp(self, node, gradients):
        """Gradients of x, weight, token_weights and bias; any gradient of `loss` and of `nll` may come in."""
        loss_gradient, nll_gradient = gradients[:2]
        x, weight, targets, token_weights, *bias = node.inputs
        if loss_gradient is None and nll_gradient is None:
            return [None] * len(node.inputs)
        if nll_gradient is None:
            promote(node)
            dx, dweight, *dbias = (scaled(t, loss_gradient) for t in node.outputs[2:])
            return [dx, dweight, None, loss_gradient * node.outputs[1], *dbias]
        seed = nll_gradient if loss_gradient is None else nll_gradient + loss_gradient * token_weights
        op = replace(self, with_gradients=True)
        dx, dweight, *dbias = apply(op, x, weight, targets, seed, *bias)[2:]
        by_weight = None if loss_gradient is None else loss_gradient * node.outputs[1]
        return [dx, dweight, None, by_weight, *dbias]

    def reference(self, inputs):
        from hierarchos.kernels.lm_head import lm_head_reference
        return lm_head_reference(self, inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.lm_head import lower_lm_head
        return lower_lm_head(self, inputs, outputs, profile)


def promote(node: Node) -> None:
    """Makes a loss-only node give its gradients too, in place: its readers keep their outputs 0 and 1."""
    if node.op.with_gradients:
        return
    node.op = replace(node.op, with_gradients=True)
    node.specs = tuple(node.op.infer([t.spec for t in node.inputs]))
    node.outputs += tuple(Tensor(node, slot) for slot in range(2, len(node.specs)))


def scaled(gradient: Tensor, seed: Tensor) -> Tensor:
    """gradient * seed; the multiply is left out for the constant 1 that differentiation of a loss starts from."""
    op = seed.node.op
    return gradient if type(op).__name__ == "Full" and op.value == 1.0 else gradient * seed


def lm_head_loss(x: Tensor, weight: Tensor, targets: Tensor, token_weights: Tensor, bias: Tensor | None = None,
                 scale: float = 1.0, softcap: float | None = None) -> tuple[Tensor, Tensor]:
    """(loss [], nll [N]) of the next-token cross-entropy of x [N,D] through weight [V,D]; the logits are never stored.

    targets i32 [N], -100 = not trained; token_weights [N] multiply each row's nll in the sum (1 / trained tokens for a mean)."""
    op = LmHeadLoss(scale, softcap, bias is not None)
    return apply(op, x, weight, targets, token_weights, *(() if bias is None else (bias,)))
