"""Products of a few rows with a weight, as decoding has them: memory-bound, with what stands before them folded in.

C [M,N] = activation(scale * P(X) W^T + bias + residual),  M <= MOST_ROWS, W [N,K]
P: "none" x; "rms" and "layer" norms; "gated" act(x) second
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log, prod

import numpy as np

from hierarchos.kernels.copy import fold_groups, strided_copy
from hierarchos.kernels.gemm import activate_reference
from hierarchos.kernels.gemm_layout import ACTIVATIONS, view
from hierarchos.kernels.launch import F32, JOINED_LOADS, U32, In, Launch, Lowering, Operand, Out, Profile, Ref, Work, row_major
from hierarchos.kernels.norm import norm_reference
from hierarchos.kernels.packed import BLOCK, unpacked

PROLOGUES = ("none", "rms", "layer", "gated")  # in the order of their numbers in shaders/include/gemv.glsl
FORMS = (None, "fp16", "bf16")
MOST_ROWS = 8
MOST_SHARED = 32768  # bytes of P(X) that a workgroup of a GPU keeps
MOST_AHEAD = 12  # 16-byte loads of a lane asked for before the prologue
CPU_COLUMNS = (96, 72, 48, 24, 8)  # outputs of a workgroup
CPU_START = 1.5  # what a workgroup costs before its first output, in outputs
MOST_STRAIGHT = 2048  # K of a kernel without loops
MOST_WIDE = (4, 2)  # rows of it, of float and of half weights; with more of them a loop is as fast and compiles sooner
MOST_GROUPS = 1 << 18
STRAIGHT_LINE = 6144  # weights of its workgroups where there is one row: compile time grows with them
LINE, MOST_TURNS = 8, 12  # words of a cache line


@dataclass(frozen=True)
class Rows:
    """Rows [M,K] with unit stride along K: where they begin and their distance in elements."""

    ref: Ref
    stride: int


def gemv_reference(op, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The NumPy twin, in the dtype of the inputs."""
    named = op.named(inputs)
    x = prologue_reference(op, named)
    weight = unpacked(named["weight"], FORMS[op.half], 2 * named["weight"].size) if op.half else named["weight"]
    c = (x @ weight.reshape(-1, x.shape[-1]).T) * x.dtype.type(op.scale)
    c = c if "bias" not in named else c + named["bias"]
    c = c if "residual" not in named else c + named["residual"]
    return [activate_reference(op.activation, c)]


def prologue_reference(op, named: dict) -> np.ndarray:
    """P(X)."""
    x = named["x"]
    if op.prologue in ("rms", "layer"):
        return norm_reference(op.prologue, x, named.get("norm_weight"), named.get("norm_bias"), op.eps, op.offset)[0]
    return activate_reference(op.gate, x) * named["second"] if op.prologue == "gated" else x


def takes(k: int, rows: int, form: str | None = None) -> bool:
    """Whether these kernels take rows of k elements, and weights of this format (None: floats)."""
    return rows <= MOST_ROWS and form in FORMS and k % (BLOCK if form else 16) == 0


class Lowerer:
    """Launches of one product; copies of operands that lie in no rows come first, in the node's workspace."""

    def __init__(self, op, inputs: list[Operand], output: Operand, profile: Profile):
        self.op, self.profile, self.launches, self.nbytes = op, profile, [], 0
        self.index = {name: i for i, name in enumerate(op.names)}
        self.operands = dict(zip(op.names, inputs, strict=True))
        self.m, self.k, self.n = prod(output.shape[:-1]), self.operands["x"].shape[-1], output.shape[-1]
        self.c = self.rows_of(Out(0), output)

    def rows(self, name: str) -> Rows | None:
        """The rows of an input, copied where it is not made of rows; None where there is none."""
        if name not in self.operands:
            return None
        ref, operand = In(self.index[name]), self.operands[name]
        return self.rows_of(ref, operand) or self.copied(ref, operand)

    @staticmethod
    def rows_of(ref: Ref, operand: Operand) -> Rows | None:
        found = view(ref, operand, True)
        return Rows(ref, found.row) if found is not None and found.column == 1 else None

    def copied(self, ref: Ref, operand: Operand) -> Rows:
        target = self.work(4 * operand.size)
        self.launches += strided_copy(
            ref, target, operand.shape, operand.strides, row_major(operand.shape), self.profile, "gemv operand copy"
        )
        return Rows(replace(target, read=True, write=False), operand.shape[-1])

    def work(self, nbytes: int) -> Work:
        """A part of the workspace that one launch writes."""
        start = self.nbytes
        self.nbytes += -(-nbytes // 256) * 256
        return Work(start, nbytes, read=False)

    def ref(self, name: str) -> Ref | None:
        return In(self.index[name]) if name in self.index else None

    def lower(self) -> Lowering:
        self.x, self.second, self.residual = (self.rows(name) for name in ("x", "second", "residual"))
        fits = 4 * self.m * self.k <= min(MOST_SHARED, self.profile.shared_bytes - 256)
        if self.profile.device_class == "cpu" or not fits:
            self.stage()
        self.launches.append(self.on_cpu() if self.profile.device_class == "cpu" else self.on_gpu(fits))
        return Lowering(tuple(self.launches), self.nbytes)

    def stage(self) -> None:
        """P(X) in a launch of its own."""
        if self.op.prologue == "none":
            return
        target, local = self.work(4 * self.m * self.k), self.profile.subgroup
        constants = (local, self.m, PROLOGUES.index(self.op.prologue), ACTIVATIONS.index(self.op.gate), 0)
        self.launches.append(
            Launch(
                "gemv_prologue",
                (self.m, 1, 1),
                self.arguments(Rows(target, self.k), staging=True),
                constants,
                f"{self.op.prologue} prologue",
                8.0 * self.m * self.k,
                8.0 * self.m * self.k,
            )
        )
        self.x, self.second, self.op = Rows(replace(target, read=True, write=False), self.k), None, replace(self.op, prologue="none")

    def arguments(self, target: Rows, staging: bool = False) -> tuple:
        prologue, product = self.op.prologue, not staging
        norm = prologue in ("rms", "layer")
        refs = (
            self.x.ref,
            self.second.ref if prologue == "gated" else None,
            self.ref("norm_weight") if norm else None,
            self.ref("norm_bias") if norm else None,
            self.ref("weight") if product else None,
            self.ref("bias") if product else None,
            self.residual.ref if product and self.residual else None,
            target.ref,
        )
        strides = (
            self.x.stride,
            self.second.stride if self.second else 0,
            self.k,
            self.residual.stride if self.residual else 0,
            target.stride,
        )
        numbers = (*map(F32, (self.op.eps, self.op.offset, self.op.scale)), *map(U32, range(4)))
        return (*refs, U32(self.n), U32(self.k), *map(U32, strides), *numbers)

    @property
    def name(self) -> str:
        return f"{'' if self.op.prologue == 'none' else self.op.prologue + ' '}gemv {self.m}x{self.n}x{self.k}"

    def launch(self, shader: str, groups: tuple, local: int, extra: tuple) -> Launch:
        constants = (
            local,
            self.m,
            PROLOGUES.index(self.op.prologue),
            ACTIVATIONS.index(self.op.gate),
            ACTIVATIONS.index(self.op.activation),
            self.op.half,
            *extra,
        )
        size = 2 if self.op.half else 4
        return Launch(
            shader,
            groups,
            self.arguments(self.c),
            constants,
            self.name,
            2.0 * self.m * self.n * self.k,
            float(size * self.n * self.k + 4 * self.m * (self.n + self.k)),
        )

    def on_gpu(self, fits: bool) -> Launch:
        """Enough workgroups for all compute units, few enough that none repeats the prologue needlessly."""
        subgroups = 8 if self.n >= 8 * self.profile.compute_units else 4
        subgroups = min(subgroups, max(1, 256 // self.profile.subgroup))
        groups = min(-(-self.n // subgroups), 16 * self.profile.compute_units)
        loads = self.k // (8 if self.op.half else 4)
        ahead = max(1, min(MOST_AHEAD, -(-loads // self.profile.subgroup)))
        local = subgroups * self.profile.subgroup
        return self.launch(
            "gemv_fused",
            fold_groups(groups, 1, self.profile),
            local,
            (self.m * self.k // 4 if fits else 1, ahead, max(1, local // 4), not fits),
        )

    def on_cpu(self) -> Launch:
        return self.wide() if self.lined() and self.m <= MOST_WIDE[self.op.half > 0] else self.streamed()

    def lined(self) -> bool:
        """Whether lanes have words side by side, as the kernel of one straight line asks for: by shape of the weight alone."""
        lanes = self.profile.subgroup
        fits = self.k <= MOST_STRAIGHT and self.k % ((4 if self.op.half else 2) * lanes) == 0 and self.n <= MOST_GROUPS
        return JOINED_LOADS in self.profile.features and lanes in (4, 8) and fits

    def wide(self) -> Launch:
        lanes = self.profile.subgroup
        columns, beside = columns_of_line(self.k, self.m, lanes)
        groups = fold_groups(ceil(self.n / columns), 1, self.profile)
        return self.launch("gemv_wide", groups, lanes, (columns, lanes, self.k, beside))

    def streamed(self) -> Launch:
        lanes = self.profile.subgroup
        values = 4 if self.op.half else 2  # of a word
        turns, part, words = parts_of(self.k // values // lanes, self.m, values, 1 if self.lined() else MOST_TURNS)
        columns = columns_of(self.n, self.profile.compute_units)
        groups = fold_groups(ceil(self.n / columns), 1, self.profile)
        return self.launch("gemv_cpu", groups, lanes, (columns, lanes, turns, part // turns, part == words))


def columns_of_line(k: int, rows: int, lanes: int) -> tuple[int, int]:
    """Outputs of a workgroup that is one straight line, and how many of them grow side by side."""
    wanted = max(1, STRAIGHT_LINE // (k * (1 + rows) // 2))
    columns = min(lanes, 1 << wanted.bit_length() - 1)
    return columns, min(columns, max(1, 4 // rows))


def columns_of(n: int, threads: int) -> int:
    """Outputs of a workgroup where each thread of the driver gets its share of workgroups at once."""
    return min(CPU_COLUMNS, key=lambda columns: ceil(ceil(n / columns) / threads) * (columns + CPU_START))


def parts_of(words: int, rows: int, values: int = 2, most_turns: int = MOST_TURNS) -> tuple[int, int, int]:
    """Words of a lane that lie side by side (by K alone: it decides the order of sums), words of a lane in a part of x, in all of it."""
    turns = max((n for n in range(1, most_turns + 1) if words % n == 0), key=lambda n: (-abs(n - LINE), n))
    wanted = max(72, 192 // rows) / values  # unrolled loads: compile time grows with their number times rows times values
    parts = [turns * n for n in range(1, words // turns + 1) if words // turns % n == 0]
    return turns, min(parts, key=lambda part: abs(log(part / wanted))), words


def lower_gemv(op, inputs: list[Operand], output: Operand, profile: Profile) -> Lowering:
    """Launches of a Gemv node."""
    return Lowerer(op, inputs, output, profile).lower()
