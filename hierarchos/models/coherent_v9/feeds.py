"""What the host gives the programs of a chunk: shifted targets, weights, shares of means, ROSA's predictions, the gates' floor."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.foretell import Foretold, predictions
from hierarchos.models.coherent_v9.rosa import Automaton

if TYPE_CHECKING:
    import numpy as np

IGNORED = -100
LEAST_WEIGHT = 1e-8


@dataclass(frozen=True, eq=False)
class Rows:
    """A batch as the data stage makes it: ids, labels i64 [B,T] (-100: not trained), mask [B,T] (1: a token; right padding only),
    weights f32 [B,T] of the labels."""

    ids: np.ndarray
    labels: np.ndarray
    mask: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, ids, labels=None, mask=None, weights=None) -> Rows:
        """Fills in what is missing: labels are the ids, everything is a token, all weights are 1. Columns that are padding in every row
        are cut off. Raises UserError for padding on the left and for trained padding."""
        import numpy as np

        ids = np.asarray(ids)
        mask = np.ones(ids.shape, np.int32) if mask is None else np.asarray(mask).astype(np.int32)
        labels = np.where(mask > 0, ids, IGNORED) if labels is None else np.asarray(labels)
        if labels.shape[1] < ids.shape[1]:
            labels = np.pad(labels, ((0, 0), (0, ids.shape[1] - labels.shape[1])), constant_values=IGNORED)
        weights = np.ones(labels.shape, np.float32) if weights is None else np.asarray(weights, np.float32)
        if weights.shape[1] < labels.shape[1]:
            weights = np.pad(weights, ((0, 0), (0, labels.shape[1] - weights.shape[1])))
        if (np.diff(mask, axis=1) > 0).any():
            row = int(np.argwhere(np.diff(mask, axis=1) > 0)[0, 0])
            raise UserError(f"row {row} has a token after padding; coherent-v9 takes padding on the right only", where="attention_mask")
        if ((labels[:, :mask.shape[1]] != IGNORED) & (mask == 0)).any():
            raise UserError("a label stands on padding; padded positions need the label -100", where="labels")
        used = max(1, int(mask.any(0).sum()))
        return cls(ids[:, :used], labels[:, :max(used, labels.shape[1] - ids.shape[1] + used)], mask[:, :used],
                   weights[:, :max(used, labels.shape[1] - ids.shape[1] + used)])

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    @property
    def padded(self) -> bool:
        return bool((self.mask == 0).any())

    def mass(self) -> float:
        """Weight of all trained labels but the first column's, which nothing predicts."""
        return float((self.weights * (self.labels != IGNORED))[:, 1:].sum(dtype="float64"))


@dataclass(frozen=True)
class Span:
    """A chunk [start, end) and its shares of the batch's label weight and of its real tokens."""

    start: int
    end: int
    prediction_weight: float
    real_tokens: int
    label_ratio: float
    token_ratio: float


def plan_spans(rows: Rows, size: int) -> list[Span]:
    """Chunks of `size` tokens (the last may be shorter); those without a label and without a token are left out."""
    weight = rows.weights * (rows.labels != IGNORED)
    total, tokens = rows.mass(), int(rows.mask.sum())
    spans = []
    for start in range(0, rows.length, size):
        end = min(start + size, rows.length)
        mass = float(weight[:, start + 1:min(end + 1, weight.shape[1])].sum(dtype="float64"))
        real = int(rows.mask[:, start:end].sum())
        if mass or real:
            spans.append(Span(start, end, mass, real, mass / total if total else 0.0, real / tokens if tokens else 0.0))
    return spans


def head_feeds(cfg: Config, rows: Rows, start: int, end: int, position: int,
               scalars: tuple[float, ...] = (1.0, 1.0, 0.0)) -> dict[str, np.ndarray]:
    """Inputs of the head for columns [start, end), the first at absolute `position`; the label of the column behind is looked at.

    scalars: see head.SCALARS."""
    import numpy as np

    batch, length = len(rows.ids), end - start
    targets, omega = np.full((length, batch), IGNORED, np.int32), np.zeros((length, batch), np.float64)
    labels, weights = rows.labels[:, start + 1:end + 1].T, rows.weights[:, start + 1:end + 1].T
    targets[:len(labels)] = labels
    omega[:len(labels)] = np.where(labels != IGNORED, weights, 0.0)
    targets[omega == 0] = IGNORED
    mask = rows.mask[:, start:end].T.astype(np.float64)
    absolute = position + np.arange(length)
    planned = mask * (absolute % cfg.h_stride == 0)[:, None]
    sampled = mask * (absolute % cfg.ltm_value_alignment_stride == 0)[:, None]
    share = lambda x: (x / max(x.sum(), 1.0)).astype(np.float32)                      # noqa: E731
    return {"targets": targets.reshape(-1), "weights": (omega / max(omega.sum(), LEAST_WEIGHT)).astype(np.float32).reshape(-1),
            "plans": share(planned), "active_share": share(mask), "samples": share(sampled),
            "scalars": np.array(scalars, np.float32)}


def front_feeds(cfg: Config, rows: Rows, start: int, end: int, position: int, rosa: list[Automaton] | Foretold | None,
                warmup_step: float) -> dict[str, np.ndarray]:
    """Inputs of the front for columns [start, end). rosa: one automaton a row, which the tokens are fed to, or what was foretold."""
    import numpy as np

    ids, length = rows.ids[:, start:end], end - start
    phase = (position + np.arange(length)) % cfg.h_stride
    feeds = {"ids": ids.T.astype(np.int32), "floor": np.array([gate_floor(cfg, warmup_step)], np.float32),
             "share": (phase / cfg.h_stride).astype(np.float32).reshape(length, 1)}
    if cfg.use_rosa:
        told = (rosa.columns(start, end) if isinstance(rosa, Foretold) else predictions(rosa, rows, start, end)).T
        known = (told >= 0) & (told < cfg.vocab_size)
        feeds |= {"rosa": np.where(known, told, 0).astype(np.int32), "known": known.astype(np.float32)[..., None]}
    return feeds


def active_feed(rows: Rows, start: int, end: int) -> np.ndarray:
    """[T,B,1]: 1 for tokens, 0 for padding."""
    return rows.mask[:, start:end].T.astype("float32")[..., None].copy()


def gate_floor(cfg: Config, step: float) -> float:
    """How far both gates are open at least while they warm up."""
    if cfg.memory_gate_warmup_steps <= 0 or cfg.memory_gate_warmup_floor <= 0:
        return 0.0
    return min(cfg.memory_gate_warmup_floor, 0.95) * (1.0 - min(max(step / cfg.memory_gate_warmup_steps, 0.0), 1.0))


def automata(cfg: Config, rows: int) -> list[Automaton]:
    """Fresh ones, one a row."""
    return [Automaton(cfg.rosa_cap) for _ in range(rows)]
