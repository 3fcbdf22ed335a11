"""The gradient of one graph over a whole sample, cut into segments: only one segment's tape is in memory at a time.

    forward    segment after segment: losses, and the state in which each one begins
    combine    the whole sample's means, from them its objective and what each segment's means weigh in its gradient
    backward   from the last segment to the first: each is computed again, and its gradient enters the one before it
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.feeds import Rows, Span

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.models.coherent_v9.foretell import Foretold
    from hierarchos.training.coherent.step import CoherentStep


@dataclass(frozen=True)
class Whole:
    """Means over the sample by name, its objective; slopes: derivatives of likelihood, ponder, commitment and alignment."""

    losses: dict[str, float]
    slopes: tuple[float, float, float, float]


def whole_sample(step: CoherentStep, rows: Rows, spans: Sequence[Span], scale: float, rosa: Foretold | None) -> Whole:
    """Adds the gradient of a batch whose programs hold one segment."""
    parts, begins = [], []
    for span in spans:
        begins.append(step.machine.read_state())
        parts.append(run(step, "loss", rows, span, rosa, (1.0, 1.0, 0.0)))
    end, plans = step.machine.read_state(), [planned(step.cfg, rows, span) for span in spans]
    found = combine(step.cfg, parts, spans, plans, step.objective.max_ce)
    step.machine.end_of_graph()
    for span, begin, mass in reversed(list(zip(spans, begins, plans, strict=True))):
        step.machine.write_state(begin)
        shares = (span.label_ratio, mass / max(sum(plans), 1.0), span.token_ratio, span.token_ratio)
        slopes = tuple(scale * slope * share for slope, share in zip(found.slopes, shares, strict=True))
        run(step, "segment", rows, span, rosa, slopes)
    step.machine.write_state(end)
    return found


def run(step: CoherentStep, what: str, rows: Rows, span: Span, rosa, scalars: tuple[float, ...]) -> dict[str, np.ndarray]:
    return step.machine.run(what, rows, span.start, step.end(span), span.start, rosa, step.state.warmup_step, scalars)


def planned(cfg: Config, rows: Rows, span: Span) -> float:
    """Real tokens of a segment at which the manager plans."""
    first = -(-span.start // cfg.h_stride) * cfg.h_stride
    return float(rows.mask[:, first:span.end:cfg.h_stride].sum())


def combine(cfg: Config, parts: Sequence[dict[str, np.ndarray]], spans: Sequence[Span], plans: Sequence[float], max_ce: float) -> Whole:
    """Means first, then limits and the aim of the depth: once for the sample."""
    def mean(name: str, shares: Sequence[float]) -> float:
        return sum(float(part[name][0]) * share for part, share in zip(parts, shares, strict=True))

    labels, tokens = ([getattr(span, name) for span in spans] for name in ("label_ratio", "token_ratio"))
    losses = {"ce": mean("ce", labels), "z_loss": mean("z_loss", labels),
              "ponder_cost": mean("ponder_cost", [count / max(sum(plans), 1.0) for count in plans]),
              "commitment_cost": mean("commitment_cost", tokens), "alignment_cost": mean("alignment_cost", tokens)}
    loss = losses["ce"] + losses["z_loss"]
    ponder, slope = ponder_term(cfg, losses["ponder_cost"], loss) if sum(plans) else (0.0, 0.0)
    cap = cfg.max_commitment_cost_for_backward
    held = min(losses["commitment_cost"], cap) if cap > 0 else losses["commitment_cost"]
    kept = min(loss, max_ce) if max_ce > 0 else loss
    losses["objective"] = (kept + ponder + cfg.commitment_loss_weight * held + cfg.ltm_value_alignment_weight * losses["alignment_cost"])
    likelihood = 0.0 if 0 < max_ce < loss else 1.0
    return Whole(losses, (likelihood, slope, cfg.commitment_loss_weight, cfg.ltm_value_alignment_weight))


def ponder_term(cfg: Config, cost: float, loss: float) -> tuple[float, float]:
    """(term, slope) of the mean depth: the rule of the head, on the host."""
    import numpy as np

    from hierarchos.graph import functions as F
    from hierarchos.graph.evaluate import evaluate
    from hierarchos.graph.op import tracing
    from hierarchos.graph.tensor import Graph
    from hierarchos.models.coherent_v9.head import ponder_slope

    with tracing(Graph()) as graph:
        term, slope = ponder_slope(cfg, F.input("cost", (1,)), F.input("loss", (1,)))
        graph.outputs |= {"term": term, "slope": slope}
    found = evaluate(graph, {"cost": np.array([cost]), "loss": np.array([loss])}, {}, "float64")[0]
    return float(found["term"][0]), float(found["slope"][0])
