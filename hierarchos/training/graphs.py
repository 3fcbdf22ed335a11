"""The graphs of training: gradients of a batch, the optimizer step, both in one, and the loss for validation.

A step of one batch is one program. With accumulation the gradient program runs once for each batch of the step (the first
overwrites the gradient arena, the others add to it), then the update program once. Token weights are already divided by the
trained tokens of the whole step, so accumulation changes nothing but the order of sums.
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.optimizer import clip_scale
from hierarchos.graph.tensor import Graph, Tensor
from hierarchos.kernels.optimizer import ADAMW_HEAD, BLOCK, SGD_HEAD
from hierarchos.models.family import Model
from hierarchos.nn.batch import Batch, input_batch, token_loss
from hierarchos.nn.weights import Weights
from hierarchos.training.precision import FP32, LOSS_SCALE, Precision, loss_scale, next_scale

PARAMETERS, GRADIENTS, FIRST, SECOND = "parameters", "gradients", "first_moment", "second_moment"
CARRY = "carry"                                     # arena of what the rounding of vectors left off, see `state.py`
FROZEN = "frozen"                                   # arena of the weights that are not trained: no gradient, no moment
DECAY_GROUPS = "decay_groups"                       # state u32 [floats / BLOCK]: number of a group, see `groups.py`


@dataclass(frozen=True)
class Update:
    """The optimizer step over arenas of `floats` floats. max_norm: of the gradient; 0 leaves it as it is. groups: of parameters with
    a learning rate and a weight decay of their own. precision: says whether gradients are scaled. carried: floats of the arena CARRY."""

    floats: int
    optimizer: str = "adamw"
    momentum: bool = False
    max_norm: float = 0.0
    groups: int = 2
    precision: Precision = FP32
    carried: int = 0

    @property
    def scalars(self) -> int:
        """Length of the input `scalars`, see `hierarchos.kernels.optimizer`."""
        return (ADAMW_HEAD if self.optimizer == "adamw" else SGD_HEAD) + 2 * self.groups


def gradient_graph(model: Model, rows: int, length: int, dropout: bool, recompute: bool, accumulate: bool,
                   precision: Precision = FP32) -> Graph:
    """Inputs ids, positions, segments, targets i32 and token_weights f32, all [rows, length] (and seed u32 [2] with dropout);
    output loss []. Writes, or with `accumulate` adds to, the gradient of every parameter."""
    with tracing(Graph(compute=precision.compute)) as graph:
        graph.outputs["loss"] = trace_gradients(model, rows, length, dropout, recompute, accumulate, precision)
    return graph


def update_graph(update: Update) -> Graph:
    """Input scalars f32; output square_norm [1] of the unclipped gradients. A gradient that is not finite changes nothing.

    Where the loss is scaled: the square norm is that of the unscaled gradients, and the scale [1] is an output."""
    with tracing(Graph()) as graph:
        graph.outputs |= trace_update(update)
    return graph


def step_graph(model: Model, rows: int, length: int, dropout: bool, recompute: bool, update: Update,
               precision: Precision = FP32) -> Graph:
    """A whole step of one batch: inputs and outputs of `gradient_graph` and `update_graph`."""
    with tracing(Graph(compute=precision.compute)) as graph:
        graph.outputs["loss"] = trace_gradients(model, rows, length, dropout, recompute, accumulate=False, precision=precision)
        graph.outputs |= trace_update(update)
    return graph


def loss_graph(model: Model, rows: int, length: int, precision: Precision = FP32) -> Graph:
    """Inputs as `gradient_graph` without seed; output loss [], the sum of token_weights * nll."""
    with tracing(Graph(compute=precision.compute)) as graph:
        graph.outputs["loss"] = trace_loss(model, model.weights(), input_batch(rows, length))
    return graph


def trace_loss(model: Model, w: Weights, batch: Batch, scale: Tensor | None = None) -> Tensor:
    """Loss [] of a model over the inputs `targets` and `token_weights`, times scale [1]."""
    shape = batch.ids.shape
    tokens = (shape[0] * shape[1],)
    targets, token_weights = F.input("targets", shape, "i32"), F.input("token_weights", shape)
    token_weights = token_weights if scale is None else token_weights * scale
    return token_loss(model.forward(w, batch), F.reshape(targets, tokens), F.reshape(token_weights, tokens))[0]


def trace_gradients(model: Model, rows: int, length: int, dropout: bool, recompute: bool, accumulate: bool,
                    precision: Precision = FP32) -> Tensor:
    """The loss; its gradients (of the scaled loss, where there is a loss scale) go to the gradient arena."""
    w, scale = model.weights(), loss_scale() if precision.scaled else None
    loss = trace_loss(model, w, input_batch(rows, length, training=dropout, recompute=recompute), scale)
    store_gradients(loss, w, accumulate)
    return loss if scale is None else loss / F.reshape(scale, ())


def store_gradients(loss: Tensor, w: Weights, accumulate: bool = False) -> None:
    """Assigns the gradient of every trained parameter to the state `gradients/NAME`, or adds it to what is there.

    Each is stored where it is known: a sum at the end of the graph would keep alive all that the gradient is computed from."""
    trained = [(spec, tensor) for spec, tensor in w.table.values() if spec.trained]
    gradients = F.gradients(loss, [tensor for _, tensor in trained])
    graph = loss.node.graph
    known, stored = len(graph.nodes), {}
    for (spec, _), gradient in zip(trained, gradients, strict=True):
        start = len(graph.nodes)
        target = F.state(f"{GRADIENTS}/{spec.name}", spec.shape)
        value = F.full(spec.shape, 0.0) if gradient is None else gradient
        F.assign(target, target + value if accumulate else value)
        stored.setdefault(gradient.node if gradient else graph.nodes[known - 1], []).extend(graph.nodes[start:])
    graph.nodes[:] = [moved for node in graph.nodes[:known] for moved in (node, *stored.get(node, ()))]


def trace_update(update: Update) -> dict[str, Tensor]:
    """The optimizer step over whole arenas; its outputs: the square of the gradient norm [1], and the loss scale where there is one."""
    arena = (update.floats,)
    parameters, gradients = F.state(PARAMETERS, arena), F.state(GRADIENTS, arena)
    scalars, groups = F.input("scalars", (update.scalars,)), F.state(DECAY_GROUPS, (update.floats // BLOCK,), "u32")
    square_norm = F.sum_of_squares(gradients)
    loss_scales, scaled_norm = loss_scale() if update.precision.scaled else None, square_norm
    if loss_scales is not None:
        square_norm = square_norm / loss_scales / loss_scales
    scale = clip_scale(square_norm, update.max_norm or float("inf"))
    scale = scale if loss_scales is None else scale / loss_scales
    if update.optimizer == "adamw":
        carry = F.state(CARRY, (update.carried,)) if update.carried else None
        F.adamw(parameters, gradients, F.state(FIRST, arena), F.state(SECOND, arena), scalars, groups, scale, carry)
    else:
        F.sgd(parameters, gradients, scalars, groups, scale, F.state(FIRST, arena) if update.momentum else None)
    if loss_scales is None:
        return {"square_norm": square_norm}
    outputs = {"square_norm": square_norm, LOSS_SCALE: loss_scales * 1.0}
    next_scale(loss_scales, scaled_norm, update.precision.loss_scale_steps)
    return outputs
