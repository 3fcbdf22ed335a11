"""AdamW, SGD and the sum of squares over a whole arena, and the scalars that the host computes for each step."""
from __future__ import annotations

import math

import numpy as np

from hierarchos.kernels.launch import U32, In, Launch, Lowering, Operand, Out, Profile, Work
from hierarchos.kernels.reduce import reduce_launches

BLOCK = 64                          # floats that share one entry of the group table; parameters start at multiples of it
ADAMW_HEAD, SGD_HEAD = 5, 2         # scalars before the first group's pair
GROUP_CODES = 256                   # groups that a table can tell apart; its entries count the blocks of `carry` above them
MOST_LOOPS = 32768                  # iterations of an invocation: Mesa 22.3's software driver ends it silently after 65535, all loops added


def adamw_scalars(step: int, groups: list[tuple[float, float]], betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> np.ndarray:
    """float32 [5 + 2 G] for step 1, 2, ...: 1 - beta1, beta2, 1 - beta2, sqrt(1 - beta2^step), eps, then for each group
    (learning rate, decay): learning rate * decay, learning rate / (1 - beta1^step). All computed in float64."""
    head = [1 - betas[0], betas[1], 1 - betas[1], math.sqrt(1 - betas[1] ** step), eps]
    correction = 1 - betas[0] ** step
    return np.array(head + [x for rate, decay in groups for x in (rate * decay, rate / correction)], np.float32)


def sgd_scalars(groups: list[tuple[float, float]], momentum: float = 0.0, dampening: float = 0.0) -> np.ndarray:
    """float32 [2 + 2 G]: momentum, 1 - dampening, then for each group (learning rate, decay)."""
    return np.array([momentum, 1 - dampening] + [x for pair in groups for x in pair], np.float32)


def _pairs(groups: np.ndarray, scalars: np.ndarray, head: int) -> tuple[np.ndarray, np.ndarray]:
    index = head + 2 * np.repeat(groups.astype(np.int64) % GROUP_CODES, BLOCK)
    return scalars[index], scalars[index + 1]


def adamw_reference(p, m, v, *rest, carried: bool = False) -> list[np.ndarray]:
    """PyTorch's AdamW in the dtype of its inputs, p rounded once; unchanged when scale is not finite. rest: carry with `carried`, then
    g, groups, scalars, scale. Carry holds what rounding left off in the blocks that have a place there."""
    *carry, g, groups, scalars, scale = rest
    if not np.isfinite(scale[0]):
        return [state.copy() for state in (p, m, v, *carry)]
    rest1, beta2, rest2, root2, eps = scalars[:ADAMW_HEAD]
    fade, rate = _pairs(groups, scalars, ADAMW_HEAD)
    g = g * scale[0]
    m = m + (g - m) * rest1
    v = v * beta2 + rest2 * g * g
    change = -(fade * p + rate * (m / (np.sqrt(v) / root2 + eps)))
    if not carried:
        return [p + change, m, v]
    place, carry = carried_places(groups), carry[0].copy()
    kept = place >= 0
    change[kept] += carry[place[kept]]
    after = p + change
    moved = after - p
    carry[place[kept]] = ((p - (after - moved)) + (change - moved))[kept]
    return [after, m, v, carry]


def carried_places(groups: np.ndarray) -> np.ndarray:
    """int64 [BLOCK * len(groups)]: where each float's rounding is kept in carry, below 0 where it is not."""
    first = (groups.astype(np.int64) // GROUP_CODES - 1) * BLOCK
    return (first[:, None] + np.where(first[:, None] < 0, 0, np.arange(BLOCK))).reshape(-1)


def sgd_reference(*arrays, momentum: bool, nesterov: bool) -> list[np.ndarray]:
    """PyTorch's SGD in the dtype of its inputs; arrays as in graph/ops/optimizer.py."""
    *states, g, groups, scalars, scale = arrays
    if not np.isfinite(scale[0]):
        return [s.copy() for s in states]
    rate, decay = _pairs(groups, scalars, SGD_HEAD)
    g = g * scale[0] + decay * states[0]
    if not momentum:
        return [states[0] - rate * g]
    buffer = states[1] * scalars[0] + g * scalars[1]
    return [states[0] - rate * (g + scalars[0] * buffer if nesterov else buffer), buffer]


def sum_of_squares_reference(x: np.ndarray) -> np.ndarray:
    return np.sum(x * x).reshape(1)


def adamw(inputs: list[Operand], profile: Profile, carried: bool = False) -> Lowering:
    """Inputs p, m, v (outputs 0 to 2, in place), carry with `carried` (output 3), g, groups, scalars, gradient scale."""
    n, rest = inputs[0].size, 3 + carried
    states = (*(Out(slot, read=True) for slot in range(3)), Out(3, read=True) if carried else None)
    return Lowering((_step(0, n, states, *(In(rest + i) for i in range(4)), "adamw", 14.0 * n, 28.0 * n, profile, carried),))


def sgd(inputs: list[Operand], momentum: bool, nesterov: bool, profile: Profile) -> Lowering:
    """Inputs p, momentum buffer? (outputs 0 and 1, in place), g, groups, scalars, gradient scale."""
    n, rest = inputs[0].size, 2 if momentum else 1
    states = (Out(0, read=True), Out(1, read=True) if momentum else None, None, None)
    rule = 1 + momentum + (momentum and nesterov)
    return Lowering((_step(rule, n, states, *(In(rest + i) for i in range(4)), "sgd", 6.0 * n, 4.0 * (3 + 2 * momentum) * n, profile),))


def _step(rule, n, states, gradients, groups, scalars, scale, label, operations, nbytes, profile, carried=False) -> Launch:
    local = profile.subgroup if profile.device_class == "cpu" else 256
    blocks = n // BLOCK
    workgroups = max(64 * profile.compute_units, -(-blocks * (1 + max(1, BLOCK // local)) // MOST_LOOPS))
    each = max(4, -(-blocks // min(profile.max_groups, workgroups)))
    grid = (max(1, -(-blocks // each)), 1, 1)
    arguments = (*states, gradients, groups, scalars, scale, U32(blocks), U32(each), U32(0))
    return Launch("optimizer_step", grid, arguments, (local, rule, int(carried)), label, operations, nbytes)


def sum_of_squares(x: Operand, profile: Profile) -> Lowering:
    """Input x [N] to output [1]: squares summed by lane, then the lanes' sums."""
    local = profile.subgroup if profile.device_class == "cpu" else 256
    groups = max(1, min(4 * profile.compute_units, x.size // (32 * local)), -(-x.size // (local * MOST_LOOPS)))
    chunk = -(-x.size // (groups * 32 * local)) * 32 * local
    lanes = groups * local
    parts = Operand((lanes,), "f32", (1,))
    first = Launch("sum_of_squares", (groups, 1, 1), (In(0), Work(0, 4 * lanes, read=False), U32(x.size), U32(chunk), U32(0)), (local,),
                   "sum of squares", 2.0 * x.size, 4.0 * x.size)
    rest, nbytes = reduce_launches("sum", (0,), parts, Work(0, 4 * lanes, write=False), Out(0), profile, work=4 * lanes)
    return Lowering((first, *rest), 4 * lanes + nbytes)
