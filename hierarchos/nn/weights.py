"""Parameters declared where they are used: one trace of a model yields names, shapes, initialisation and computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor


@dataclass(frozen=True)
class Normal:
    """Normal distribution with mean 0. cutoff: values beyond so many std are drawn again."""

    std: float
    cutoff: float | None = None


@dataclass(frozen=True)
class Constant:
    """The same number everywhere."""

    value: float


ZEROS = "zeros"
ONES = "ones"
SINES = "sines"         # sin and cos by turns, one row for each position
Initial = Normal | Constant | str
Spread = float | Normal | None


@dataclass(frozen=True)
class ParameterSpec:
    """What is known of a parameter before it has values. `decay`: weight decay applies (matrices yes, norms and biases no).
    `used`: the loss depends on it; where it does not, no optimizer changes it. `trained`: it has a gradient; what is frozen has neither
    gradient nor moments. `rate`: of its learning rate to that of the run. `stored`: format on the device (`stored.py`)."""

    name: str
    shape: tuple[int, ...]
    initial: Initial
    decay: bool
    used: bool = True
    trained: bool = True
    rate: float = 1.0
    stored: str = "fp32"

    @property
    def size(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n


@dataclass(eq=False)
class Weights:
    """Declares parameters below a prefix. All views made by `at` share one ordered table.

    `std` is the model's initializer_range, or a distribution: the default for matrices and embeddings. A subclass may override `linear`
    (adapters do) or give `source`, which makes the tensor of a declared parameter (default: a state of that name)."""

    std: float | Normal = 0.02
    prefix: str = ""
    table: dict[str, tuple[ParameterSpec, Tensor]] = field(default_factory=dict)
    source: Callable[[ParameterSpec], Tensor] | None = None

    def at(self, *path: str | int) -> Weights:
        """The view below `path`: `w.at("layers", 3)` declares `layers.3.*`."""
        return replace(self, prefix=self.name(".".join(map(str, path))))

    def name(self, leaf: str) -> str:
        """Full name of `leaf` in this view."""
        return f"{self.prefix}.{leaf}" if self.prefix else leaf

    @property
    def specs(self) -> tuple[ParameterSpec, ...]:
        """All parameters declared so far, in order of first use."""
        return tuple(spec for spec, _ in self.table.values())

    def parameter(self, leaf: str, shape: tuple[int, ...], initial: Initial | None = None, decay: bool | None = None,
                  used: bool = True) -> Tensor:
        """The tensor of a parameter; declared at first use, the same tensor afterwards. initial None: what was declared, or normal."""
        decay = len(shape) > 1 if decay is None else decay
        return self.declare(ParameterSpec(self.name(leaf), tuple(shape), initial or self._normal(None), decay, used), initial is not None)

    def declare(self, spec: ParameterSpec, initial: bool = True) -> Tensor:
        """The tensor of a spec under its full name. initial: whether its distribution is said, or is what was declared before."""
        if spec.name in self.table:
            known, tensor = self.table[spec.name]
            agreed = spec if initial else replace(spec, initial=known.initial)
            assert known == agreed, f"{spec.name} is declared twice: {known} and {spec}"
            return tensor
        tensor = self.source(spec) if self.source else F.state(spec.name, spec.shape, "f32")
        self.table[spec.name] = (spec, tensor)
        return tensor

    def linear(self, leaf: str, x: Tensor, width: int, bias: bool = False, layout: str = "out_in", std: Spread = None) -> Tensor:
        """x [..., D] times `leaf.weight` ([width, D]; layout "in_out": [D, width]) plus `leaf.bias`, gives [..., width]."""
        inner = x.shape[-1]
        shape = (width, inner) if layout == "out_in" else (inner, width)
        weight = self.parameter(f"{leaf}.weight", shape, self._normal(std))
        offset = self.parameter(f"{leaf}.bias", (width,), ZEROS) if bias else None
        return F.linear(x, weight, offset, layout=layout)

    def embedding(self, leaf: str, ids: Tensor, count: int, width: int, std: Spread = None) -> Tensor:
        """Rows of `leaf.weight` [count, width] for ids [...]: [..., width]."""
        return F.embedding(ids, self.parameter(f"{leaf}.weight", (count, width), self._normal(std)))

    def _normal(self, std: Spread) -> Normal:
        """std: of a matrix where it is not the model's, or all of its distribution."""
        std = self.std if std is None else std
        return std if isinstance(std, Normal) else Normal(std)

    def rms_norm(self, leaf: str, x: Tensor, eps: float, offset: float = 0.0) -> Tensor:
        """Root-mean-square norm over the last axis, times offset + weight (which starts at 1 - offset)."""
        weight = self.parameter(f"{leaf}.weight", (x.shape[-1],), ZEROS if offset == 1.0 else ONES)
        return F.rms_norm(x, weight, eps=eps, weight_offset=offset)

    def layer_norm(self, leaf: str, x: Tensor, eps: float, bias: bool = True, offset: float = 0.0) -> Tensor:
        """Layer norm over the last axis, times offset + weight (which starts at 1), plus a bias."""
        width = (x.shape[-1],)
        weight, shift = self.parameter(f"{leaf}.weight", width, ONES), self.parameter(f"{leaf}.bias", width, ZEROS) if bias else None
        return F.layer_norm(x, weight, shift, eps=eps, weight_offset=offset)
