"""Learned tensors arranged as the recurrent steps read them: related matrices stacked, low-rank halves transposed.

It is ordinary graph code, so its derivative brings gradients of arranged weights back to the learned tensors.
"""
from __future__ import annotations

from collections.abc import Callable

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.coherent_v9.cell import CellShape
from hierarchos.models.coherent_v9.config import Config

Source = Callable[[str], Tensor]            # a learned tensor by name


def cells(cfg: Config) -> tuple[CellShape, CellShape]:
    """Manager and worker."""
    bounds = (cfg.recurrent_state_clamp, cfg.rwkv_channel_mix_key_clamp, cfg.rwkv_channel_mix_deepembed_clamp)
    return CellShape("h", cfg.context_dim, cfg.h_head, *bounds), CellShape("l", cfg.l_hidden, cfg.l_head, *bounds)


def prepared_shapes(cfg: Config) -> dict[str, tuple[int, ...]]:
    """What `prepare` makes."""
    c, lw, kd = cfg.context_dim, cfg.l_hidden, cfg.ltm_key_dim
    h, l = cells(cfg)
    return {**h.weights(), **l.weights(), "q_prev": (kd, c), "keys": (cfg.ltm_slots, kd), "memory": (c, cfg.ltm_topk * cfg.ltm_val_dim),
            "feedback": (c, lw), "context": (c, c), "context_bias": (c,), "halt": (1, c), "halt_bias": (1,), "input": (lw, c),
            "input_context": (lw, c), "input_bias": (lw,), "drift": (c, lw), "to_out": (c, lw), "to_out_bias": (c,)}


def prepare(cfg: Config, p: Source) -> dict[str, Tensor]:
    """Arranged weights by name."""
    c, head = cfg.context_dim, cfg.context_dim + cfg.persistent_dim
    found = {**_cell("h", "h_rnn", p), **_cell("l", "l_rnn", p)}
    query, into, step = p("qproj.weight"), p("in_proj.weight"), p("l_input_proj.weight")
    return found | {
        "q_prev": F.slice(query, 1, c, 2 * c), "keys": p("ltm.keys"), "memory": F.slice(into, 1, head, into.shape[1]),
        "feedback": p("l_feedback_proj.weight"), "context": p("h_to_context.weight"), "context_bias": p("h_to_context.bias"),
        "halt": p("h_halt_proj.weight"), "halt_bias": p("h_halt_proj.bias"), "input": F.slice(step, 1, 0, c),
        "input_context": F.slice(step, 1, c, 2 * c), "input_bias": p("l_input_proj.bias"), "drift": p("context_drift_proj.weight"),
        "to_out": p("l_to_out.weight"), "to_out_bias": p("l_to_out.bias")}


TURNED = (".rkv", ".wa1", ".g1", ".wa2", ".g2", ".out", ".key", ".val")       # of the cells
TURNED_WHOLE = ("q_prev", "keys", "memory", "feedback", "context", "input", "input_context", "drift", "to_out")


def is_turned(name: str) -> bool:
    """Whether the backward pass reads this weight transposed."""
    return name in TURNED_WHOLE or name.endswith(TURNED)


def turned_shapes(cfg: Config) -> dict[str, tuple[int, ...]]:
    """Shapes of the transposes, `NAME^T`."""
    return {f"{name}^T": (*shape[:-2], shape[-1], shape[-2]) for name, shape in prepared_shapes(cfg).items() if is_turned(name)}


def turn(made: dict[str, Tensor]) -> dict[str, Tensor]:
    """The transposes of arranged weights."""
    found = {}
    for name, tensor in made.items():
        if is_turned(name):
            axes = (*range(tensor.rank - 2), tensor.rank - 1, tensor.rank - 2)
            found[f"{name}^T"] = F.contiguous(F.transpose(tensor, axes))
    return found


def _cell(short: str, name: str, p: Source) -> dict[str, Tensor]:
    def stack(*leaves: str, turn: bool = False) -> Tensor:
        tensors = [p(f"{name}.{leaf}") for leaf in leaves]
        tensors = [F.transpose(t, (1, 0)) for t in tensors] if turn else tensors
        return F.concat([F.reshape(t, (1, *t.shape)) for t in tensors], 0)

    def vectors(*leaves: str) -> Tensor:
        return F.concat([F.reshape(t, (1, t.spec.size)) for t in (p(f"{name}.{leaf}") for leaf in leaves)], 0)

    parts = {
        "mix": vectors("x_r", "x_k", "x_v", "x_w", "x_a", "x_g"), "rkv": stack("receptance.weight", "key.weight", "value.weight"),
        "wa1": stack("w1", "a1", turn=True), "g1": F.transpose(p(f"{name}.g1"), (1, 0)), "wa2": stack("w2", "a2", turn=True),
        "g2": F.transpose(p(f"{name}.g2"), (1, 0)), "rows": vectors("w0", "a0", "k_k", "k_a", "r_k", "ln_x.weight", "ln_x.bias"),
        "out": p(f"{name}.output.weight"), "key": p(f"{name}.key_cm.weight"), "val": p(f"{name}.value_cm.weight"),
        "ln1": vectors("ln1.weight", "ln1.bias"), "ln2": vectors("ln2.weight", "ln2.bias"), "cm": vectors("x_k_cm")}
    return {f"{short}.{leaf}": tensor for leaf, tensor in parts.items()}
