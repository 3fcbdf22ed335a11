"""Every learned tensor of coherent-v9: name, shape, initial distribution, weight decay, in registration order."""
from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.head_size import decay_rank, gate_rank
from hierarchos.nn.weights import ParameterSpec

if TYPE_CHECKING:
    import numpy as np

TABLE = "lm_head.weight"            # the tied embedding and head


@dataclass(frozen=True)
class Uniform:
    """Uniform in -bound .. bound."""

    bound: float


@dataclass(frozen=True)
class Gaussian:
    """Normal with mean 0."""

    std: float


@dataclass(frozen=True)
class Orthogonal:
    """Rows or columns orthonormal, times a gain."""

    gain: float


@dataclass(frozen=True)
class Fill:
    """One number everywhere."""

    value: float


@dataclass(frozen=True)
class Ramp:
    """A function of the channel: see `ramp`."""

    kind: str
    head: int = 1


def parameters(cfg: Config) -> tuple[ParameterSpec, ...]:
    """All learned tensors, in registration order."""
    return tuple(_all(cfg))


def _spec(name: str, shape: tuple[int, ...], initial, decay: bool | None = None) -> ParameterSpec:
    return ParameterSpec(name, shape, initial, len(shape) >= 2 if decay is None else decay)


def _linear(name: str, out: int, inner: int, bias: bool = True, initial=None) -> Iterator[ParameterSpec]:
    bound = Uniform(1 / math.sqrt(inner))
    yield _spec(f"{name}.weight", (out, inner), initial or bound)
    if bias:
        yield _spec(f"{name}.bias", (out,), bound)


def _adapter(name: str, cfg: Config, out: int, bias: float) -> Iterator[ParameterSpec]:
    rank, width = cfg.token_adapter_rank, cfg.context_dim
    yield _spec(f"{name}.bias", (out,), Fill(bias))
    yield _spec(f"{name}.down.weight", (rank, width), Uniform(1 / math.sqrt(width)))
    yield _spec(f"{name}.up.weight", (out, rank), Fill(0.0))


def _router(name: str, cfg: Config) -> Iterator[ParameterSpec]:
    yield _spec(f"{name}.weight", (1, cfg.context_dim), Fill(0.0))
    yield _spec(f"{name}.bias", (1,), Fill(0.0))


def _all(cfg: Config) -> Iterator[ParameterSpec]:
    c, lw, p, kd, vd = cfg.context_dim, cfg.l_hidden, cfg.persistent_dim, cfg.ltm_key_dim, cfg.ltm_val_dim
    if cfg.use_rosa:
        yield _spec("rosa_gate_logit", (), Fill(-1.0))
    yield _spec("persistent", (p,), Gaussian(0.02))
    yield _spec("ltm_gate_logit", (), Fill(-2.0))
    yield _spec(TABLE, (cfg.vocab_size, c), Uniform(1 / math.sqrt(c)))
    if cfg.use_deepembed:
        yield from _adapter("h_deepembed_adapter", cfg, 4 * c, 1.0)
        yield from _adapter("l_deepembed_adapter", cfg, 4 * lw, 1.0)
    if cfg.use_rosa:
        yield from _adapter("rosa_adapter", cfg, c, 0.0)
    if cfg.use_rosa and cfg.memory_token_routers:
        yield from _router("rosa_router", cfg)
    if cfg.memory_token_routers:
        yield from _router("ltm_router", cfg)
    yield _spec("ltm.keys", (cfg.ltm_slots, kd), Gaussian(0.02))
    yield _spec("ltm.vals", (cfg.ltm_slots, vd), Orthogonal(0.02))
    yield from _linear("qproj", kd, 2 * c, bias=False)
    yield _spec("val_proj.weight", (vd, c), Uniform(1 / math.sqrt(c)), decay=False)
    yield from _linear("in_proj", c, c + p + cfg.ltm_topk * vd)
    yield from _linear("l_feedback_proj", c, lw, bias=False, initial=Gaussian(0.01))
    yield from _cell("h_rnn", c, cfg.h_head)
    yield from _linear("h_to_context", c, c)
    yield _spec("h_halt_proj.weight", (1, c), Uniform(1 / math.sqrt(c)))
    yield _spec("h_halt_proj.bias", (1,), Fill(-math.log(max(2, cfg.max_h_steps) - 1)))
    yield from _linear("l_input_proj", lw, 2 * c)
    yield from _cell("l_rnn", lw, cfg.l_head)
    yield from _linear("context_drift_proj", c, lw, bias=False, initial=Gaussian(0.01))
    yield from _linear("l_to_out", c, lw)
    yield _spec("out_norm.weight", (c,), Fill(1.0))
    yield _spec("out_norm.bias", (c,), Fill(0.0))


def _cell(cell: str, w: int, head: int) -> Iterator[ParameterSpec]:
    root = math.sqrt(w)
    for leaf in "rwkvag":
        yield _spec(f"{cell}.x_{leaf}", (1, w), Ramp(f"x_{leaf}"))
    for leaf, rank in (("w", decay_rank(w)), ("a", decay_rank(w)), ("g", gate_rank(w))):
        yield _spec(f"{cell}.{leaf}1", (w, rank), Fill(0.0))
        yield _spec(f"{cell}.{leaf}2", (rank, w), Orthogonal(0.1 * math.sqrt(rank / w) if rank > w else 0.1))
        if leaf != "g":
            yield _spec(f"{cell}.{leaf}0", (1, w), Ramp(f"{leaf}0", head))
    yield _spec(f"{cell}.k_k", (1, w), Ramp("k_k"))
    yield _spec(f"{cell}.k_a", (1, w), Fill(1.02))
    yield _spec(f"{cell}.r_k", (w // head, head), Fill(-0.04))
    yield _spec(f"{cell}.x_k_cm", (1, w), Fill(0.0))
    for leaf in ("ln1", "ln2"):
        yield _spec(f"{cell}.{leaf}.weight", (w,), Fill(1.0))
        yield _spec(f"{cell}.{leaf}.bias", (w,), Fill(0.0))
    for leaf, scale in (("receptance", 0.5), ("key", 0.05), ("value", 0.5), ("output", 0.01)):
        yield _spec(f"{cell}.{leaf}.weight", (w, w), Uniform(scale / root))
    yield _spec(f"{cell}.ln_x.weight", (w,), Fill(1.0))
    yield _spec(f"{cell}.ln_x.bias", (w,), Fill(0.0))
    yield _spec(f"{cell}.key_cm.weight", (4 * w, w), Orthogonal(2.0))
    yield _spec(f"{cell}.value_cm.weight", (w, 4 * w), Uniform(0.01 / root))


def initial_values(cfg: Config, seed: int) -> dict[str, np.ndarray]:
    """Fresh float32 values of every learned tensor; each has a stream of its own, so a feature that is off changes no other tensor."""
    return {spec.name: initial_value(spec, seed) for spec in parameters(cfg)}


def initial_value(spec: ParameterSpec, seed: int) -> np.ndarray:
    """float32 values of one tensor."""
    import zlib

    import numpy as np

    rng, start = np.random.default_rng([seed, zlib.crc32(spec.name.encode())]), spec.initial
    if isinstance(start, Uniform):
        drawn = rng.uniform(-start.bound, start.bound, spec.shape)
    elif isinstance(start, Gaussian):
        drawn = rng.normal(0.0, start.std, spec.shape)
    elif isinstance(start, Orthogonal):
        drawn = start.gain * orthogonal(rng, spec.shape)
    elif isinstance(start, Ramp):
        drawn = ramp(start.kind, spec.shape[-1], start.head).reshape(spec.shape)
    else:
        drawn = np.full(spec.shape, start.value)
    return np.asarray(drawn, np.float32)


def orthogonal(rng, shape: tuple[int, int]) -> np.ndarray:
    """A matrix with orthonormal rows or columns, drawn evenly: QR of a normal matrix with the signs of R's diagonal."""
    import numpy as np

    tall = max(shape), min(shape)
    q, r = np.linalg.qr(rng.normal(size=tall))
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return q if shape[0] >= shape[1] else q.T


def ramp(kind: str, width: int, head: int) -> np.ndarray:
    """Channel profiles [width] of a cell: how far it looks back (x_*), decay (w0), in-context rate (a0), removal key (k_k)."""
    import numpy as np

    n = np.arange(width)
    linear = n / max(1, width - 1) - 0.5
    if kind.startswith("x_"):
        power = {"r": 0.2, "g": 0.2, "w": 0.9, "a": 0.9, "k": 0.7, "v": 0.7}[kind[2]]
        return 1.0 - (n / width) ** power
    if kind == "k_k":
        return 0.71 - 0.1 * linear
    centre = (head - 1) / 2
    zig = (n % head - centre) / centre if head > 1 else np.zeros(width)
    bent = zig * np.abs(zig)
    if kind == "w0":
        return -6 + 6 * (n / max(1, width - 1)) + 0.5 + 2.5 * bent
    return -0.19 + 0.3 * bent + 0.4 * linear
