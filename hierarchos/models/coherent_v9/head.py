"""The end of a chunk: logits, losses, and the gradients from which its backward pass starts.

Rows are tokens, time first: row t B + b. The softmax cross-entropy with its z-loss is written with its gradient, block by block, so that
never more than BLOCK_BYTES of logits lie in memory.
"""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.parameters import TABLE
from hierarchos.models.coherent_v9.pieces import limited
from hierarchos.models.coherent_v9.prepare import Source

BLOCK_BYTES = 64 << 20
LOSSES = ("ce", "z_loss", "ponder_cost", "commitment_cost", "alignment_cost", "objective")
# the input `scalars`; of a segment of one graph: what its means weigh in the whole objective's gradient
SCALARS = ("label_scale", "token_scale", "max_ce")
OF_A_SEGMENT = ("likelihood", "halting", "commitment", "alignment")


@dataclass(frozen=True, eq=False)
class HeadInput:
    """out [T,B,C]; targets i32 [N] and weights [N] (summing to 1 or all 0) of its N = T B rows; depth, halting, commitment [T,B];
    plans, active, samples [T,B]: shares of each row in the means of ponder, commitment and alignment; scalars: see SCALARS."""

    out: Tensor
    targets: Tensor
    weights: Tensor
    commitment: Tensor
    depth: Tensor
    plans: Tensor
    active: Tensor
    samples: Tensor
    scalars: Tensor


def head_inputs(length: int, batch: int, tape, scalars: int = len(SCALARS)) -> HeadInput:
    """Inputs of a program by name; what the tokens left is read through `tape(name, shape)`."""
    grid, rows = (length, batch), (length * batch,)
    return HeadInput(None, F.input("targets", rows, "i32"), F.input("weights", rows), tape("commitment", grid), tape("depth", grid),
                     F.input("plans", grid), F.input("active_share", grid), F.input("samples", grid), F.input("scalars", (scalars,)))


def final(cfg: Config, p: Source, out: Tensor) -> Tensor:
    """The normed output that meets the head."""
    return limited(F.layer_norm(out, p("out_norm.weight"), p("out_norm.bias")), cfg.activation_clamp)


def logits(cfg: Config, p: Source, out: Tensor) -> Tensor:
    """[..., V]."""
    return F.matmul(final(cfg, p, out), p(TABLE), transpose_b=True)


def blocks(rows: int, vocabulary: int) -> list[tuple[int, int]]:
    """Row ranges whose logits fit into BLOCK_BYTES."""
    size = max(1, min(rows, BLOCK_BYTES // (4 * vocabulary)))
    return [(start, min(rows, start + size)) for start in range(0, rows, size)]


def cross_entropy(cfg: Config, y: Tensor, table: Tensor, targets: Tensor, weights: Tensor,
                  factor: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(ce [1], z [1], dy [N,C], dtable [V,C]) of y [N,C]; the gradients are those of factor * (ce + z), factor [1]."""
    import numpy as np

    vocabulary, z_weight = table.shape[0], cfg.z_loss_weight
    ids = F.constant(np.arange(vocabulary, dtype=np.int32).reshape(1, -1))
    ce, z, dys, dtable = [], [], [], None
    for start, stop in blocks(y.shape[0], vocabulary):
        x, count = F.slice(y, 0, start, stop), stop - start
        target, weight = (F.reshape(F.slice(t, 0, start, stop), (count, 1)) for t in (targets, weights))
        score = F.matmul(x, table, transpose_b=True)
        most = F.max(score, -1, keepdims=True)
        total = F.sum(F.exp(score - most), -1, keepdims=True)
        spread = most + F.log(total)
        own = F.sum(F.where(F.eq(ids, target), score, 0.0), -1, keepdims=True)
        used = F.ge(target, 0)
        ce.append(F.sum(F.where(used, weight * (spread - own), 0.0)))
        z.append(F.sum(F.where(used, weight * (spread * spread), 0.0)) * z_weight)
        share = F.where(used, weight * factor, 0.0)
        softmax = F.exp(score - spread)
        slope = softmax * (share * (spread * (2.0 * z_weight) + 1.0)) - F.where(F.eq(ids, target), share, 0.0)
        dys.append(F.matmul(slope, table))
        part = F.matmul(slope, x, transpose_a=True)
        dtable = part if dtable is None else dtable + part
    sums = [F.reshape(_added(parts), (1,)) for parts in (ce, z)]
    return *sums, dys[0] if len(dys) == 1 else F.concat(dys, 0), dtable


def _added(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def ponder_slope(cfg: Config, cost: Tensor, loss: Tensor) -> tuple[Tensor, Tensor]:
    """(term, d term / d cost), both [1], of the mean manager depth."""
    cap, weight = cfg.max_ponder_cost_for_backward, cfg.ponder_loss_weight
    passes = F.where(F.le(cost, cap), 1.0, 0.0) if cap > 0 else F.full((1,), 1.0)
    cost = F.minimum(cost, cap) if cap > 0 else cost
    if cfg.encourage_thinking:
        return cost * -abs(weight), passes * -abs(weight)
    if not cfg.adaptive_ponder:
        return cost * weight, passes * weight
    aim = F.minimum(F.maximum(loss * cfg.ponder_target_scale, float(cfg.min_h_steps)), float(cfg.max_h_steps))
    error, beta = cost - aim, cfg.ponder_huber_beta
    size = F.maximum(error, -error)
    near = F.lt(size, beta)
    term = F.where(near, error * error * (0.5 / beta), size - 0.5 * beta)
    slope = F.where(near, error * (1.0 / beta), F.where(F.gt(error, 0.0), 1.0, -1.0))
    return term * weight, slope * passes * weight


def alignment(cfg: Config, p: Source, out: Tensor, shares: Tensor) -> Tensor:
    """[1]: how badly the value writer, read back through in_proj, reproduces the outputs. Only val_proj is differentiable.

    Each sampled row's error is measured against its own size."""
    c, width, first = cfg.context_dim, cfg.ltm_val_dim, cfg.context_dim + cfg.persistent_dim
    into = p("in_proj.weight")
    back = None
    for j in range(cfg.ltm_topk):
        part = F.slice(into, 1, first + j * width, first + (j + 1) * width)
        back = part if back is None else back + part
    y = F.reshape(out, (out.shape[0] * out.shape[1], c))
    error = F.matmul(F.matmul(y, p("val_proj.weight"), transpose_b=True), back, transpose_b=True) - y
    cost = F.mean(error * error, -1) / F.maximum(F.mean(y * y, -1), 1e-4)
    return F.reshape(F.sum(cost * F.reshape(shares, cost.shape)), (1,))


@dataclass(frozen=True, eq=False)
class HeadResult:
    """losses by name, all [1]; gradients: dy, dtable, d_halting and d_commitment [T,B]; alignment [1] to differentiate, and its slope."""

    losses: dict[str, Tensor]
    y: Tensor
    dy: Tensor
    dtable: Tensor
    d_halting: Tensor
    d_commitment: Tensor
    alignment: Tensor | None
    d_alignment: Tensor


def segment(cfg: Config, p: Source, given: HeadInput) -> HeadResult:
    """The gradient of a segment's part in an objective whose slopes are known; scalars: see OF_A_SEGMENT."""
    rows = given.out.shape[0] * given.out.shape[1]
    likelihood, halting, commitment, alignment_ = (F.slice(given.scalars, 0, i, i + 1) for i in range(len(OF_A_SEGMENT)))
    y = F.reshape(final(cfg, p, given.out), (rows, cfg.context_dim))
    ce, z, dy, dtable = cross_entropy(cfg, y, p(TABLE), given.targets, given.weights, F.full((1,), 1.0))
    aligned = alignment(cfg, p, given.out, given.samples) if cfg.ltm_value_alignment_weight > 0 else None
    return HeadResult({"ce": ce, "z_loss": z}, y, dy * likelihood, dtable * likelihood, given.plans * halting, given.active * commitment,
                      aligned, alignment_)


def objective(cfg: Config, p: Source, given: HeadInput) -> HeadResult:
    """Losses of a chunk and where its backward pass starts; `given.out` [T,B,C]."""
    rows = given.out.shape[0] * given.out.shape[1]
    label, share, most = (F.slice(given.scalars, 0, i, i + 1) for i in range(3))
    y = F.reshape(final(cfg, p, given.out), (rows, cfg.context_dim))
    one = F.full((1,), 1.0)
    ce, z, dy, dtable = cross_entropy(cfg, y, p(TABLE), given.targets, given.weights, one)
    loss = ce + z
    capped = F.gt(most, 0.0)
    factor = label * F.where(capped, F.where(F.le(loss, most), 1.0, 0.0), 1.0)
    kept = F.where(capped, F.minimum(loss, most), loss)
    dy, dtable = dy * factor, dtable * factor
    ponder = F.reshape(F.sum(given.depth * given.plans), (1,))
    term, slope = ponder_slope(cfg, ponder, loss)
    planned = F.where(F.gt(F.reshape(F.sum(given.plans), (1,)), 0.0), 1.0, 0.0)
    term, slope = term * planned, slope * planned
    commitment = F.reshape(F.sum(given.commitment * given.active), (1,))
    cap = cfg.max_commitment_cost_for_backward
    held = F.minimum(commitment, cap) if cap > 0 else commitment
    aligned = alignment(cfg, p, given.out, given.samples) if cfg.ltm_value_alignment_weight > 0 else None
    costs = term + held * cfg.commitment_loss_weight
    costs = costs if aligned is None else costs + aligned * cfg.ltm_value_alignment_weight
    losses = {"ce": ce, "z_loss": z, "ponder_cost": ponder, "commitment_cost": commitment,
              "alignment_cost": F.full((1,), 0.0) if aligned is None else aligned, "objective": kept * label + costs * share}
    return HeadResult(losses, y, dy, dtable, given.plans * (slope * share), given.active * (share * cfg.commitment_loss_weight), aligned,
                      share * cfg.ltm_value_alignment_weight)
