"""ERNIE: BERT, with an embedding of the task where use_task_id is set (here always the first task)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hierarchos.graph.tensor import Tensor
from hierarchos.models.bert import BertConfig, encoder_family, first_row, read_encoder
from hierarchos.models.bert import forward as bert_forward
from hierarchos.models.config import Fields
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class ErnieConfig(BertConfig):
    """tasks: how many there are (None: not told apart)."""

    tasks: int | None = None


def read(fields: Fields) -> ErnieConfig:
    """The number of tasks only counts with use_task_id."""
    tasks = fields.integer("task_type_vocab_size", 3)
    return read_encoder(fields, ErnieConfig, causal=fields.boolean("is_decoder", False),
                        tasks=tasks if fields.boolean("use_task_id", False) else None)


def with_task(cfg: ErnieConfig, w: Weights, x: Tensor) -> Tensor:
    """The words and the task."""
    return x + first_row(w, "task_type_embeddings", cfg.tasks, cfg.embed_width) if cfg.tasks else x


def forward(cfg: ErnieConfig, w: Weights, batch: Batch) -> Output:
    """BERT's, with the task."""
    return bert_forward(cfg, w, batch, "ernie", partial(with_task, cfg))


FAMILY = encoder_family("ernie", read, forward, "ErnieForMaskedLM", "ernie")
