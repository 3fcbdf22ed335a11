"""Kernel launches whose memory is still symbolic: what `Op.lower` returns and the program binder resolves.

A lowering is made before the memory plan exists, so it names operands (`In(0)`, `Out(0)`, `Work(0)`) instead of
addresses. Lowering is a pure function of shapes and of the device profile; it needs no device and is tested
without one.
"""
from __future__ import annotations

from dataclasses import dataclass, field

JOINED_LOADS = "joined loads"    # a feature of a Profile: kernels with shaders/include/wide.glsl are fast


@dataclass(frozen=True)
class In:
    """Input `index` of the node, `offset` bytes into it (the view's own offset is added by the binder)."""

    index: int
    offset: int = 0


@dataclass(frozen=True)
class Out:
    """Output `index` of the node. `read=True` when the kernel also reads it (accumulation, in-place update)."""

    index: int
    offset: int = 0
    read: bool = False


@dataclass(frozen=True)
class Work:
    """Scratch memory of the node, `offset` bytes in; `nbytes` is the part that this launch touches.

    `read`/`write` say what the launch does with it, so that independent parts need no barrier."""

    offset: int
    nbytes: int
    read: bool = True
    write: bool = True


Ref = In | Out | Work


@dataclass(frozen=True)
class U32:
    """An unsigned 32-bit push constant (a size or a stride, in elements)."""

    value: int


@dataclass(frozen=True)
class I32:
    """A signed 32-bit push constant."""

    value: int


@dataclass(frozen=True)
class F32:
    """A 32-bit float push constant."""

    value: float


Null = None      # an absent operand: address 0
Argument = Ref | U32 | I32 | F32 | None


@dataclass(frozen=True)
class Launch:
    """One launch of a checked-in shader (by name) or of a generated one (a `Shader`).

    arguments: in push-constant order, all addresses (refs and None) before all numbers; 128 bytes at most.
    constants: specialization constants 0, 1, 2 ...; int, bool or float.
    """

    shader: object                                  # str: name of shaders/NAME.comp; or hierarchos.vulkan.Shader
    groups: tuple[int, int, int]
    arguments: tuple[Argument, ...]
    constants: tuple[int | bool | float, ...] = ()
    label: str = ""
    operations: float = 0.0                         # multiply-adds count 2
    bytes_moved: float = 0.0


@dataclass(frozen=True)
class Clear:
    """Fills an operand range with a 32-bit word before later launches of the same lowering."""

    target: Ref
    nbytes: int
    word: int = 0


@dataclass(frozen=True)
class Lowering:
    """The launches of one node, in order, and the bytes of scratch memory that they share."""

    launches: tuple[Launch | Clear, ...]
    workspace: int = 0


def item_bytes(dtype: str) -> int:
    """Bytes of one element: 2 of the half formats, else 4."""
    return 2 if dtype in ("f16", "bf16") else 4


@dataclass(frozen=True)
class Operand:
    """How an input or output lies in memory: logical shape, element strides, dtype.

    The address that `In`/`Out` resolve to already includes the view's offset."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Of a contiguous operand."""
        return item_bytes(self.dtype) * self.size

    @property
    def contiguous(self) -> bool:
        return self.strides == row_major(self.shape) or self.size <= 1

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a contiguous row-major array; extent-1 axes keep their regular stride."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


@dataclass(frozen=True)
class Profile:
    """What a lowering may know about the device: its class and its limits. Hashable: part of cache keys."""

    device_class: str = "cpu"                       # "cpu": no shared memory, no barriers; "gpu": tiles
    subgroup: int = 8
    shared_bytes: int = 32768
    max_groups: int = 65535                         # per axis; larger grids are folded into y and z
    compute_units: int = 2                          # multiprocessors, when known; for split-K
    features: frozenset[str] = field(default_factory=frozenset)
    chunk_bytes: int = 32 << 20                     # largest transient logits block
    tuned: tuple[tuple[str, tuple[int, ...]], ...] = ()         # measured choices: key of a product -> tile, parts of K
    matrices: tuple[tuple[str, int, int, int], ...] = ()        # of matrix units with fp32 sums: format, m, n, k
    layouts: tuple[tuple[str, object], ...] = ()    # format -> MatrixLayout, where kernels may work on elements of matrices
    split: bool = True                              # fp32 products on matrix units where that is faster (kernels/gemm_split.py)
    exact_below: int = (1 << 25) + 1                # operations of a product or an attention: below, GPUs compensate its sums
