"""One token: retrieve, encode, plan or carry on, refine, commit. The recurrent step of coherent-v9, written once.

Everything that does not depend on the recurrence is an input made for all tokens together (`front.py`). All tensors have the rows of
the batch first.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from hierarchos.graph import functions as F
from hierarchos.graph.ops.memory_read import memory_read
from hierarchos.graph.tensor import Tensor
from hierarchos.models.coherent_v9.cell import CellState, cell
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.pieces import Weights, clipped_drift, limited
from hierarchos.models.coherent_v9.prepare import cells

QUERY_BOUND, ENCODED_BOUND, HINGE_BOUND = 12.0, 30.0, 100.0


@dataclass(frozen=True, eq=False)
class TokenInput:
    """query [B,Kd] and encoded [B,C]: the token's part of both projections; gate [B,1]; share [1]: way between
    two plans, (position mod h_stride) / h_stride; embeddings [B,4w] of both cells or None.

    active [B,1]: 1 for real tokens, 0 for padding; None where there is no padding. allowed [B,S] or None: slots that may be read."""

    query: Tensor
    encoded: Tensor
    gate: Tensor
    share: Tensor
    h_embedding: Tensor | None
    l_embedding: Tensor | None
    values: Tensor
    fast: Tensor
    active: Tensor | None = None
    allowed: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Recurrent:
    """What a token leaves behind: both cells' states, the contexts [B,C] between which plans are interpolated, the final drift [B,C]."""

    h: CellState
    l: CellState
    previous: Tensor
    target: Tensor
    drift: Tensor


@dataclass(eq=False)
class TokenOutput:
    """out [B,C] before the final norm; commitment [B]; depth [B] of the plan, halting [B] its differentiable stand-in (plans only).

    worker_steps [B]: refinements + 1. index, value: retrieved slots. keep: tensors that backward should not compute again."""

    out: Tensor
    after: Recurrent
    commitment: Tensor
    depth: Tensor | None
    halting: Tensor | None
    worker_steps: Tensor
    index: Tensor
    value: Tensor
    keep: list[Tensor] = field(default_factory=list)


def token(cfg: Config, w: Weights, given: TokenInput, before: Recurrent, plan: bool) -> TokenOutput:
    """One step. plan: the absolute position is a multiple of h_stride."""
    h, l = cells(cfg)
    bound, far = cfg.activation_clamp, cfg.context_state_clamp
    index, value = retrieve(cfg, w, given, before.previous)
    encoded = encode(w, given, value)
    entry = limited(encoded + w.linear("feedback", before.l.out), bound)
    manager = think(cfg, h, w, entry, before, given.h_embedding, plan)
    context = limited(limited(manager.previous + given.share * (manager.target - manager.previous), far), far)
    start = F.tanh(w.linear("drift", before.l.out))
    drift = clipped_drift(clipped_drift(start, cfg.drift_state_clamp, cfg.drift_norm_clamp), cfg.drift_state_clamp, cfg.drift_norm_clamp)
    encoded = limited(encoded, bound)
    work = refine(cfg, l, w, encoded, context, drift, before.l, given.l_embedding)
    out = limited(encoded + (w.linear("to_out", work.last) + w.row("to_out_bias", encoded.shape[0])), bound)
    final = clipped_drift(work.drift, cfg.drift_state_clamp, cfg.drift_norm_clamp)
    after = Recurrent(manager.state, work.state, manager.previous, manager.target, final)
    result = TokenOutput(out, after, work.commitment, manager.depth,
                         manager.halting, work.steps, index, value, [encoded, entry, context, *manager.keep, *work.keep])
    return result if given.active is None else frozen_padding(result, before, given.active)


def retrieve(cfg: Config, w: Weights, given: TokenInput, previous: Tensor) -> tuple[Tensor, Tensor]:
    """The K best slots for the token and the context carried in."""
    query = limited(given.query + w.linear("q_prev", previous), QUERY_BOUND)
    scores = w.linear("keys", query) * cfg.ltm_key_dim ** -0.5
    if given.allowed is not None:
        scores = F.where(F.gt(given.allowed, 0.5), scores, float("-inf"))
    return memory_read(scores, given.values, given.fast, cfg.ltm_topk, cfg.ltm_score_grad_scale)


def encode(w: Weights, given: TokenInput, value: Tensor) -> Tensor:
    """The token with what was retrieved for it."""
    batch, count, width = value.shape
    gated = F.reshape(F.reshape(given.gate, (batch, 1, 1)) * value, (batch, count * width))
    return limited(F.gelu(given.encoded + w.linear("memory", gated)), ENCODED_BOUND)


@dataclass(frozen=True, eq=False)
class Manager:
    """State, contexts, executed depth and halting of a manager step."""

    state: CellState
    previous: Tensor
    target: Tensor
    depth: Tensor | None = None
    halting: Tensor | None = None
    keep: tuple[Tensor, ...] = ()


def think(cfg: Config, shape, w: Weights, entry: Tensor, before: Recurrent, embedding: Tensor | None, plan: bool) -> Manager:
    """One manager step; where it plans, up to max_h_steps candidates of which the first that is sure enough is committed."""
    bound, far, batch = cfg.activation_clamp, cfg.context_state_clamp, entry.shape[0]
    raw, state = cell(shape, w, entry, before.h, embedding)
    if not plan:
        return Manager(state, before.previous, before.target)
    outs, states = [limited(raw, bound)], [state]
    for _ in range(cfg.max_h_steps - 1):
        raw, state = cell(shape, w, entry, states[-1], embedding)
        outs.append(limited(raw, bound))
        states.append(state)
    sure = certainty(cfg, w, outs)
    first = cfg.min_h_steps - 1
    out, chosen, depth = outs[-1], states[-1].parts(), F.full((batch, 1), float(len(outs)))
    for i in reversed(range(first, len(outs) - 1)):                 # the earliest sure candidate wins
        hit = F.ge(sure[i], cfg.h_halt_thresh)
        out = F.where(hit, outs[i], out)
        chosen = tuple(F.where(_over(hit, a), a, b) for a, b in zip(states[i].parts(), chosen, strict=True))
        depth = F.where(hit, float(i + 1), depth)
    target = limited(w.linear("context", limited(out, bound)) + w.row("context_bias", batch), far)
    return Manager(CellState(*chosen), limited(before.target, far), target, F.reshape(depth, (batch,)), halting(cfg, sure, batch),
                   (out, *outs, *sure))


def _over(mask: Tensor, x: Tensor) -> Tensor:
    """A mask [B,1] that broadcasts over x [B, ...]."""
    return F.reshape(mask, (mask.shape[0],) + (1,) * (x.rank - 1))


def certainty(cfg: Config, w: Weights, outs: list[Tensor]) -> list[Tensor]:
    """[B,1] for each candidate: the probability that halting has come by then, 1 - prod(1 - p)."""
    going, sure = None, []
    for out in outs:
        logit = limited(w.linear("halt", out) + w.row("halt_bias", out.shape[0]), cfg.halt_logit_clamp)
        p = between(F.sigmoid(logit), 1e-6, 1 - 1e-6)
        going = 1.0 - p if going is None else going * (1.0 - p)
        sure.append(1.0 - going)
    return sure


def between(x: Tensor, low: float, high: float) -> Tensor:
    """x limited to low .. high; the gradient passes inside, edges included."""
    return F.where(F.lt(x, low), low, F.where(F.gt(x, high), high, x))


def halting(cfg: Config, sure: list[Tensor], batch: int) -> Tensor | None:
    """[B]: a smooth stand-in for the depth, min_steps + sum sigmoid((threshold - certainty) / temperature); None where it is constant."""
    soft = None
    for i in range(cfg.min_h_steps - 1, len(sure) - 1):
        term = F.sigmoid((cfg.h_halt_thresh - sure[i]) * (1.0 / cfg.act_depth_temperature))
        soft = term if soft is None else soft + term
    return None if soft is None else F.reshape(soft + float(cfg.min_h_steps), (batch,))


@dataclass(frozen=True, eq=False)
class Worker:
    """The committed step: its output, state, final drift, mean hinge, executed steps."""

    last: Tensor
    state: CellState
    drift: Tensor
    commitment: Tensor
    steps: Tensor
    keep: tuple[Tensor, ...]


def refine(cfg: Config, shape, w: Weights, encoded: Tensor, context: Tensor, drift: Tensor, before: CellState,
           embedding: Tensor | None) -> Worker:
    """Shadow steps move the drift until it hardly changes; then one step is made from the state that was there before them."""
    batch, bound = encoded.shape[0], cfg.activation_clamp
    base = w.linear("input", encoded) + w.row("input_bias", batch)
    drive = lambda d: limited(base + w.linear("input_context", context + d), cfg.recurrent_state_clamp)     # noqa: E731
    drift = clipped_drift(drift, cfg.drift_state_clamp, cfg.drift_norm_clamp)
    shadow, u, keep = before, drive(drift), [base, drift]
    active, cost, steps = F.full((batch, 1), 1.0), F.full((batch, 1), 0.0), F.full((batch, 1), 0.0)
    for _ in range(cfg.max_l_steps):
        raw, shadow = cell(shape, w, u, shadow, embedding)
        delta = F.tanh(w.linear("drift", limited(raw, bound)))
        delta = delta if cfg.drift_delta_scale == 1.0 else delta * cfg.drift_delta_scale
        moved = clipped_drift(drift + delta, cfg.drift_state_clamp, cfg.drift_norm_clamp)
        on = F.gt(active, 0.5)
        cost = cost + F.where(on, hinge(cfg, moved), 0.0)
        steps = steps + active
        drift = F.where(on, moved, drift)
        change = F.mean(F.maximum(delta, -delta), -1, keepdims=True)
        active = F.where(on, F.where(F.ge(change, cfg.l_conv_atol), 1.0, 0.0), 0.0)
        u = drive(drift)                    # a row that stopped gets the same u again
        keep += [active, steps, drift, u, raw]
    raw, state = cell(shape, w, u, before, embedding)
    commitment = F.reshape(cost / F.maximum(steps, 1.0), (batch,))
    return Worker(limited(raw, bound), state, drift, commitment, F.reshape(steps + 1.0, (batch,)), tuple(keep))


def hinge(cfg: Config, drift: Tensor) -> Tensor:
    """[B,1]: how far the drift's mean square lies above the threshold; gradient only where 0 < it <= 100."""
    over = F.mean(drift * drift, -1, keepdims=True) - cfg.commitment_threshold
    return F.where(F.gt(over, 0.0), F.where(F.le(over, HINGE_BOUND), over, HINGE_BOUND), 0.0)


def frozen_padding(result: TokenOutput, before: Recurrent, active: Tensor) -> TokenOutput:
    """Rows of padding keep everything as it was; their output goes on but counts nowhere."""
    real = F.gt(active, 0.5)
    keep = lambda new, old: F.where(_over(real, new), new, old)                      # noqa: E731
    flat = F.reshape(real, (active.shape[0],))
    after = result.after
    result.after = Recurrent(CellState(*map(keep, after.h.parts(), before.h.parts())),
                             CellState(*map(keep, after.l.parts(), before.l.parts())),
                             keep(after.previous, before.previous), keep(after.target, before.target), keep(after.drift, before.drift))
    result.commitment = F.where(flat, result.commitment, 0.0)
    result.worker_steps = F.where(flat, result.worker_steps, 0.0)
    result.depth = None if result.depth is None else F.where(flat, result.depth, 0.0)
    return result
