"""What tokens contribute whatever the recurrence does: made for all tokens of a chunk at once, time first."""
from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.parameters import TABLE
from hierarchos.models.coherent_v9.pieces import limited
from hierarchos.models.coherent_v9.prepare import Source

GATE_BOUND = 50.0


@dataclass(frozen=True, eq=False)
class FrontInput:
    """ids i32 [T,B]; rosa i32 [T,B] predicted tokens (0 where there is none) and known f32 [T,B,1] (1: predicted); None without ROSA.

    floor f32 [1]: the least opening of both gates while they warm up."""

    ids: Tensor
    floor: Tensor
    rosa: Tensor | None = None
    known: Tensor | None = None


def front_inputs(cfg: Config, length: int, batch: int) -> FrontInput:
    """The inputs `ids`, `floor`, `rosa`, `known` of a program."""
    ids, floor = F.input("ids", (length, batch), "i32"), F.input("floor", (1,))
    if not cfg.use_rosa:
        return FrontInput(ids, floor)
    return FrontInput(ids, floor, F.input("rosa", (length, batch), "i32"), F.input("known", (length, batch, 1)))


def front_shapes(cfg: Config, batch: int) -> dict[str, tuple[int, ...]]:
    """What `front` gives for each token."""
    shapes = {"query": (batch, cfg.ltm_key_dim), "encoded": (batch, cfg.context_dim), "gate": (batch, 1)}
    if cfg.use_deepembed:
        shapes |= {"h_embedding": (batch, 4 * cfg.context_dim), "l_embedding": (batch, 4 * cfg.l_hidden)}
    return shapes


def front(cfg: Config, p: Source, given: FrontInput) -> dict[str, Tensor]:
    """Tensors [T,B,...] named as in `front_shapes`."""
    c, end = cfg.context_dim, cfg.context_dim + cfg.persistent_dim
    table = p(TABLE)
    e = F.embedding(given.ids, table)
    x = e if given.rosa is None else e + predicted(cfg, p, given, table, e)
    found = {"gate": gate(cfg, p, "ltm", x, given.floor)}
    if cfg.use_deepembed:
        n = F.layer_norm(e)
        found |= {"h_embedding": adapter(p, "h_deepembed_adapter", n), "l_embedding": adapter(p, "l_deepembed_adapter", n)}
    into = p("in_proj.weight")
    offset = p("in_proj.bias")
    if cfg.persistent_dim:
        constant = F.matmul(F.reshape(p("persistent"), (1, cfg.persistent_dim)), F.slice(into, 1, c, end), transpose_b=True)
        offset = F.reshape(constant, (c,)) + offset
    found["encoded"] = F.matmul(x, F.slice(into, 1, 0, c), transpose_b=True) + offset
    found["query"] = F.matmul(x, F.slice(p("qproj.weight"), 1, 0, c), transpose_b=True)
    return found


def predicted(cfg: Config, p: Source, given: FrontInput, table: Tensor, e: Tensor) -> Tensor:
    """What ROSA's prediction adds to the token; exactly nothing where there is none."""
    update = adapter(p, "rosa_adapter", F.layer_norm(F.embedding(given.rosa, table))) * given.known
    return gate(cfg, p, "rosa", e, given.floor) * update


def gate(cfg: Config, p: Source, name: str, x: Tensor, floor: Tensor) -> Tensor:
    """[T,B,1]: sigmoid of a logit that may depend on the token, opened at least as far as the floor."""
    logit = p(f"{name}_gate_logit")
    if cfg.memory_token_routers:
        logit = (F.linear(x, p(f"{name}_router.weight")) + p(f"{name}_router.bias")) + logit
    else:
        logit = F.expand(F.reshape(logit, (1, 1, 1)), (*x.shape[:-1], 1))
    return floor + (1.0 - floor) * F.sigmoid(limited(logit, GATE_BOUND))


def adapter(p: Source, name: str, x: Tensor) -> Tensor:
    """bias + up silu(down x)."""
    inner = F.silu(F.linear(x, p(f"{name}.down.weight")))
    return F.linear(inner, p(f"{name}.up.weight")) + p(f"{name}.bias")
