"""The graphs of training: gradients of a batch, the optimizer step, and the loss for validation.

A step runs the gradient program once for each batch of the step (the first overwrites the gradient arena, the others add
to it), then the update program once. Token weights are already divided by the trained tokens of the whole step, so
accumulation changes nothing but the order of sums.
"""
from __future__ import annotations

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.ops.optimizer import clip_scale
from hierarchos.graph.tensor import Graph
from hierarchos.models.family import Model
from hierarchos.nn.batch import input_batch, token_loss

PARAMETERS, GRADIENTS, FIRST, SECOND = "parameters", "gradients", "first_moment", "second_moment"


def gradient_graph(model: Model, rows: int, length: int, dropout: bool, recompute: bool, accumulate: bool) -> Graph:
    """Inputs ids, positions, segments, targets i32 and token_weights f32, all [rows, length] (and seed u32 [2] with dropout);
    output loss []. Writes, or with `accumulate` adds to, the gradient of every parameter."""
    with tracing(Graph()) as graph:
        batch = input_batch(rows, length, training=dropout, recompute=recompute)
        w = model.weights()
        loss = traced_loss(model, w, batch, rows * length)[0]
        parameters = [tensor for _, tensor in w.table.values()]
        for spec, gradient in zip(w.specs, F.gradients(loss, parameters), strict=True):
            target = F.state(f"{GRADIENTS}/{spec.name}", spec.shape)
            if gradient is None:
                gradient = F.full(spec.shape, 0.0)
            F.assign(target, target + gradient if accumulate else gradient)
        graph.outputs["loss"] = loss
    return graph


def loss_graph(model: Model, rows: int, length: int) -> Graph:
    """Inputs as `gradient_graph` without seed; output loss [], the sum of token_weights * nll."""
    with tracing(Graph()) as graph:
        batch = input_batch(rows, length)
        graph.outputs["loss"] = traced_loss(model, model.weights(), batch, rows * length)[0]
    return graph


def traced_loss(model: Model, w, batch, tokens: int):
    """(loss, nll of each token) of a model over inputs `targets` and `token_weights`, flattened to [tokens]."""
    shape = batch.ids.shape
    targets = F.reshape(F.input("targets", shape, "i32"), (tokens,))
    token_weights = F.reshape(F.input("token_weights", shape), (tokens,))
    return token_loss(model.forward(w, batch), targets, token_weights)


def update_graph(floats: int, optimizer: str, scalars: int, max_norm: float, momentum: bool = False) -> Graph:
    """One optimizer step over arenas of `floats` floats. Inputs scalars f32 [scalars], groups are the state decay_groups;
    output square_norm [1] of the unclipped gradients. A gradient that is not finite changes nothing."""
    with tracing(Graph()) as graph:
        parameters, gradients = F.state(PARAMETERS, (floats,)), F.state(GRADIENTS, (floats,))
        hyper, groups = F.input("scalars", (scalars,)), F.state("decay_groups", (floats // 64,), "u32")
        square_norm = F.sum_of_squares(gradients)
        scale = clip_scale(square_norm, max_norm or float("inf"))
        if optimizer == "adamw":
            F.adamw(parameters, gradients, F.state(FIRST, (floats,)), F.state(SECOND, (floats,)), hyper, groups, scale)
        else:
            F.sgd(parameters, gradients, hyper, groups, scale, F.state(FIRST, (floats,)) if momentum else None)
        graph.outputs["square_norm"] = square_norm
    return graph
