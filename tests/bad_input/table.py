"""The table of wrong inputs: a row says what is wrong, what is typed, and what is answered. docs/errors.md is made from it."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SIZE = ("model=gpt2_tiny", "model.config.n_embd=16", "model.config.n_layer=1", "model.config.n_head=2", "tokenizer.vocab_size=300")
SHORT = ("train.steps=4", "train.batch_size=2", "train.sequence_length=16", "train.eval_every=2", "train.checkpoint_every=1",
         "evaluate.batch_size=2", "generate.max_new_tokens=5")
TINY = ("train", *SIZE, *SHORT)

NOTHING, FAILED_RUN = "nothing", "failed run"


@dataclass(frozen=True)
class Wrong:
    """One row. words: the command line. files: what lies in the folder where it is typed. left: what is on disk afterwards that was not
    there before: nothing, or a run directory whose run.json says failed."""

    what: str
    words: tuple[str, ...]
    message: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    before: Callable[[Path], object] | None = None
    status: int = 2
    left: str = NOTHING


def by_name(rows: list[Wrong]) -> dict:
    """Arguments of pytest.mark.parametrize: one test for each row."""
    return {"argnames": "row", "argvalues": rows, "ids": [row.what for row in rows]}
