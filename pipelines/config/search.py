"""How the values of a sweep are chosen."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting


@dataclass(frozen=True)
class SearchConfig:
    """`search=optuna` draws values instead of trying all (docs/search.md). Changes no result of a job."""

    name: str = setting("grid", choices=("grid", "optuna"))
    """grid: every combination; optuna: values drawn one job after the other, learning from those before."""

    trials: int = setting(20, at_least=1)
    """Jobs in all, those of earlier calls of the same study included."""

    objective: str = setting("validation_loss", choices=("validation_loss", "best_loss", "loss", "evaluation_loss", "perplexity",
                                                             "accuracy"))
    """The figure that is made small; accuracy is made large."""

    sampler: str = setting("tpe", choices=("tpe", "random"))
    """tpe: near what was good, with some curiosity; random: anywhere."""

    pruner: str = setting("median", choices=("none", "median", "halving"))
    """Ends jobs early by the losses of their validations: those worse than the median at the same step, by successive halving, or none."""

    startup: int = setting(5, at_least=0)
    """Jobs that are drawn at random and never ended early, before there is something to learn from."""

    storage: str | None = setting(None, path=True)
    """SQLite file of the studies; null: search.db in run.outputs."""

    study: str | None = setting(None)
    """Name of the study; null: one for this pipeline and these words, so that the same command goes on with it."""

    seed: int = setting(0, at_least=0, at_most=2**31 - 1)
    """Decides what is drawn."""
