"""Row lookup and its deterministic gradient."""
from __future__ import annotations

from math import prod

import numpy as np

from hierarchos.kernels.launch import U32, Clear, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.reduce import grid

FIRST = 1 << 31                                     # bit of a chain entry: the first position of its id


def embedding_reference(ids: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Rows of the table; NaN for ids outside it."""
    known = (ids >= 0) & (ids < len(table))
    return np.where(known[..., None], table[np.where(known, ids, 0)], table.dtype.type(np.nan))


def chain_reference(ids: np.ndarray) -> np.ndarray:
    """u32 [count]: the next position of the same id (count: none), with FIRST set at the first one."""
    count, last = len(ids), {}
    chain = np.full(count, count, np.uint32)
    for i, id_ in enumerate(ids.tolist()):
        if id_ in last:
            chain[last[id_]] = (chain[last[id_]] & FIRST) | i
        else:
            chain[i] |= FIRST
        last[id_] = i
    return chain


def embedding_gradient_reference(g: np.ndarray, ids: np.ndarray, vocabulary: int, base: np.ndarray | None = None) -> np.ndarray:
    """base (or zeros) [vocabulary, width] plus the rows of g summed for each id; ids outside are left out."""
    width = g.shape[-1]
    total = np.zeros((vocabulary, width), g.dtype) if base is None else base.copy()
    known = (ids.reshape(-1) >= 0) & (ids.reshape(-1) < vocabulary)
    np.add.at(total, ids.reshape(-1)[known], g.reshape(-1, width)[known])
    return total


def _local(width: int, profile: Profile) -> int:
    if profile.device_class == "cpu":
        return profile.subgroup
    return min(256, max(32, 1 << (width - 1).bit_length()))


def embedding(inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs ids, table; output rows."""
    (vocabulary, width), count = inputs[1].shape, inputs[0].size
    if count * width == 0:
        return Lowering(())
    arguments = (In(0), In(1), Out(0), U32(count), U32(vocabulary), U32(width))
    launch = Launch("embedding", grid(count, profile), arguments, (_local(width, profile),), "embedding", 0.0, 8.0 * count * width)
    return Lowering((launch,))


def embedding_gradient(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs gradient, ids, base?; `op` is a graph.ops.embedding.EmbeddingGradient."""
    count, width = prod(inputs[1].shape), inputs[0].shape[-1]
    clear = () if op.base else (Clear(Out(0), 4 * op.vocabulary * width),)
    if count * width == 0:
        return Lowering(clear)
    spread = profile.device_class == "gpu"
    local = 4 * profile.subgroup if spread else profile.subgroup
    blocks = -(-count // (4 if spread else local))
    rows = -(-blocks // profile.max_groups)
    link = Launch("embedding_chain", (-(-blocks // rows), rows, 1), (In(1), Work(0, 4 * count, read=False), U32(count)), (local, spread),
                  "embedding chain", float(count) * count / 2, 4.0 * count)
    arguments = (In(1), Work(0, 4 * count, write=False), In(0), Out(0, read=True), U32(count), U32(op.vocabulary), U32(width))
    total = Launch("embedding_gradient", grid(count, profile), arguments, (_local(width, profile), op.base), "embedding gradient",
                   float(count * width), 8.0 * count * width)
    return Lowering((*clear, link, total), 4 * count)
