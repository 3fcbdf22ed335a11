"""Reading a slot memory: the best K of S scores, their values, and the straight-through gradient of the scores.

    index [B,K]: slots by falling score, the lower slot first on a tie; -1 where the score is not finite
    value [B,K,V]: values[index] + fast[index] (or fast[b, index]); 0 for -1
    dscore[b, index_j] = scale <dvalue_j, value_j>, 0 elsewhere
"""
from __future__ import annotations

import numpy as np

from hierarchos.kernels.launch import F32, U32, Clear, In, Launch, Lowering, Operand, Out, Profile


def memory_read_reference(count: int, scores, values, fast) -> list[np.ndarray]:
    """index i32 and value."""
    ranked = np.argsort(-np.where(np.isfinite(scores), scores, -np.inf), axis=-1, kind="stable")[:, :count]
    finite = np.isfinite(np.take_along_axis(scores, ranked, -1))
    slow = values[ranked]
    quick = fast[ranked] if fast.ndim == 2 else np.take_along_axis(fast, ranked[..., None], 1)
    return [np.where(finite, ranked, -1).astype(np.int32), np.where(finite[..., None], slow + quick, 0)]


def memory_read_gradient_reference(scale: float, slots: int, index, value, dvalue) -> np.ndarray:
    """dscore [B,S]."""
    out = np.zeros((len(index), slots), value.dtype)
    part = scale * (dvalue * value).sum(-1)
    for b, row in enumerate(index):
        out[b, row[row >= 0]] = part[b][row >= 0]
    return out


def _local(profile: Profile, most: int) -> int:
    return profile.subgroup if profile.device_class == "cpu" else most


def memory_read(count: int, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs scores, values, fast; outputs index, value. One workgroup a row."""
    (batch, slots), width = inputs[0].shape, inputs[1].shape[1]
    own = slots * width if len(inputs[2].shape) == 3 else 0
    arguments = (In(0), In(1), In(2), Out(0, read=True), Out(1), U32(slots), U32(count), U32(width), U32(own))
    launch = Launch("memory_read", (batch, 1, 1), arguments, (_local(profile, 256),), "memory read", 2.0 * batch * slots * count,
                    4.0 * batch * (slots + 3 * count * width))
    return Lowering((launch,))


def memory_read_gradient(scale: float, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs index, value, dvalue; output dscore."""
    (batch, count, width), slots = inputs[1].shape, outputs[0].shape[1]
    arguments = (In(0), In(1), In(2), Out(0), U32(slots), U32(count), U32(width), F32(scale))
    launch = Launch("memory_read_gradient", (count, batch, 1), arguments, (_local(profile, 32),), "memory read gradient",
                    2.0 * batch * count * width, 8.0 * batch * count * width)
    return Lowering((Clear(Out(0), 4 * batch * slots), launch))
