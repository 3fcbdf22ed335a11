"""What training needs on a device, by kind, before anything is allocated."""
from __future__ import annotations

from hierarchos.coherent.replay import tape_bytes
from hierarchos.graph.memory import aligned
from hierarchos.models.coherent_v9.chunk import Chunk
from hierarchos.models.coherent_v9.head import BLOCK_BYTES
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.models.coherent_v9.prepare import prepared_shapes, turned_shapes

FLOAT = 4


def training_bytes(chunk: Chunk, length: int) -> dict[str, int]:
    """Bytes of weights, gradients, moments, arranged weights, the tape of `length` tokens; activations are an estimate."""
    cfg = chunk.cfg
    weights = sum(aligned(FLOAT * spec.size) for spec in parameters(cfg))
    arranged = sum(aligned(FLOAT * size(shape)) for shape in (prepared_shapes(cfg) | turned_shapes(cfg)).values())
    logits = min(BLOCK_BYTES, FLOAT * length * chunk.kind.rows * cfg.vocab_size)
    tokens = FLOAT * length * chunk.kind.rows * 12 * (cfg.context_dim + cfg.l_hidden)
    return {"weights": weights, "gradients": weights, "moments": 2 * weights, "arranged weights": arranged,
            "tape": tape_bytes(chunk.tape, length), "activations": 3 * logits + FLOAT * cfg.vocab_size * cfg.context_dim + tokens}


def size(shape: tuple[int, ...]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n
