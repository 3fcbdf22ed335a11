"""LayerNorm followed by mixing with the previous token's result: NumPy twins and launches.

    n = (x - mean) rstd gamma + beta [eps 1e-5]      kept = n limited to -bound .. bound
    m_g = n + (previous - n) c_g                      for G mixtures, handed on in parts of 3, 2 and 1, or in one part of 1

Layouts: x, previous, kept [B,w]; affine [2,B,w] (gamma, beta), mix [G,B,w] (c; the axis B of both may be repeated); parts [k,B,w], or
[B,w] for k = 1.
"""
from __future__ import annotations

import numpy as np

from hierarchos.kernels.launch import F32, U32, In, Launch, Lowering, Operand, Out, Profile
from hierarchos.kernels.wkv import limited

EPS = 1e-5


def _normed(x):
    centred = x - x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
    return centred * rstd, rstd


def norm_mix_reference(parts: tuple[int, ...], bound: float, x, affine, previous, mix) -> list[np.ndarray]:
    """kept and the parts."""
    n = _normed(x)[0] * affine[0] + affine[1]
    mixed = n + (previous - n) * mix
    found, start = [limited(n, bound)], 0
    for count in parts:
        found.append(mixed[start:start + count].reshape((count, *x.shape) if count > 1 else x.shape))
        start += count
    return found


def norm_mix_gradient_reference(bound: float, x, affine, previous, mix, dkept, *dparts) -> list[np.ndarray]:
    """Gradients of x, affine, previous, mix."""
    unit, rstd = _normed(x)
    n = unit * affine[0] + affine[1]
    dm = np.concatenate([d.reshape(-1, *x.shape) for d in dparts])
    dn = (dm * (1 - mix)).sum(0) + np.where(np.abs(n) <= bound, dkept, 0)
    h = dn * affine[0]
    dx = rstd * (h - h.mean(-1, keepdims=True) - unit * (h * unit).mean(-1, keepdims=True))
    return [dx, np.stack([dn * unit, dn]), (dm * mix).sum(0), dm * (previous - n)]


def norm_mix(parts: tuple[int, ...], bound: float, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs x, affine, previous, mix; outputs kept and the parts."""
    targets = [Out(1 + i) for i in range(len(parts))]
    arguments = (In(0), In(1), In(2), In(3), Out(0), *(targets if len(parts) == 3 else [None, None, *targets]), *_sizes(inputs), F32(bound))
    return Lowering((_launch("norm_mix", arguments, inputs, parts, profile),))


def norm_mix_gradient(parts: tuple[int, ...], bound: float, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """Inputs of `norm_mix`, dkept, gradients of the parts; outputs gradients of its inputs."""
    sources = [In(5 + i) for i in range(len(parts))]
    sources = sources if len(parts) == 3 else [None, None, *sources]
    arguments = (*map(In, range(5)), *sources, *map(Out, range(4)), *_sizes(inputs), F32(bound))
    return Lowering((_launch("norm_mix_gradient", arguments, inputs, parts, profile),))


def _sizes(inputs: list[Operand]) -> tuple[U32, ...]:
    """width, batch, strides of affine and mix along their kinds and along the batch."""
    batch, width = inputs[0].shape
    steps = [(o.strides[0] if o.shape[0] > 1 else 0, o.strides[1] if batch > 1 else 0) for o in (inputs[1], inputs[3])]
    return (U32(width), U32(batch), *(U32(n) for pair in steps for n in pair))


def _launch(shader: str, arguments: tuple, inputs: list[Operand], parts: tuple[int, ...], profile: Profile) -> Launch:
    batch, width = inputs[0].shape
    local = 4 * profile.subgroup if profile.device_class == "cpu" else min(512, -(-width // profile.subgroup) * profile.subgroup)
    size = float(batch * width)
    return Launch(shader, (batch, 1, 1), arguments, (local, len(parts) == 3), shader, 30.0 * size, 4.0 * size * (4 + 2 * sum(parts)))
