"""Which elements of a matrix each invocation of a subgroup holds: devices do not say, so a kernel is asked (shaders/matrix_layout.comp).

A layout is kept where row and column of an element are sums over the bits of its number and of the invocation's, and where an accumulator
and a matrix A are laid out alike: then kernels may work on elements, and the results of one product are operands of the next where
they are. So it is with NVIDIA's units and on Mesa's software driver; elsewhere kernels go through shared memory.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hierarchos.kernels.half_shader import half_shader
from hierarchos.kernels.launch import Launch, Lowering, Out, Profile
from hierarchos.kernels.matrix_units import matrix_shape

if TYPE_CHECKING:
    import numpy as np

ELEMENTS = 8                                        # of a matrix, that an invocation holds


@dataclass(frozen=True)
class MatrixLayout:
    """(row, column) that each bit of an element's number and each bit of an invocation's add."""

    elements: tuple[tuple[int, int], ...]
    invocations: tuple[tuple[int, int], ...]

    @property
    def constants(self) -> tuple[int, int, int, int]:
        """Specialization constants of include/matrix_layout.glsl: rows and columns of elements, then of invocations, four bits each."""
        return tuple(sum(pair[axis] << 4 * bit for bit, pair in enumerate(pairs))
                     for pairs in (self.elements, self.invocations) for axis in (0, 1))


def cells_of(layout: MatrixLayout) -> np.ndarray:
    """i64 [invocation, element]: 16 row + column."""
    import numpy as np

    def sums(pairs: tuple[tuple[int, int], ...]) -> np.ndarray:
        numbers = np.arange(2 ** len(pairs))
        return sum((numbers >> bit & 1) * (16 * row + column) for bit, (row, column) in enumerate(pairs))
    return sums(layout.invocations)[:, None] + sums(layout.elements)[None, :]


def layout_from(cells: np.ndarray) -> MatrixLayout | None:
    """The layout that `cells` [2, invocation, element] (accumulator, matrix A) show; None where they are no such layout."""
    import numpy as np

    first, second = cells
    if not np.array_equal(first, second) or first.shape[1] != ELEMENTS or first[0, 0] != 0:
        return None
    bits = int(first.shape[0]).bit_length() - 1
    pairs = [[divmod(int(cell), 16) for cell in line] for line in (first[0, [1, 2, 4]], first[[1 << bit for bit in range(bits)], 0])]
    layout = MatrixLayout(tuple(pairs[0]), tuple(pairs[1]))
    single = all((row == 0) != (column == 0) for row, column in layout.elements + layout.invocations)
    return layout if single and np.array_equal(cells_of(layout), first) else None


def layout_lowering(profile: Profile, dtype: str) -> Lowering | None:
    """The kernel that writes the cells of the device's matrices into output 0, i32 [2, subgroup, 8]; None where they have another size."""
    shape = matrix_shape(profile, dtype)
    if shape is None or len(set(shape)) > 1 or shape[0] not in (8, 16) or shape[0] ** 2 != ELEMENTS * profile.subgroup:
        return None
    return Lowering((Launch(half_shader("matrix_layout", dtype), (1, 1, 1), (Out(0),), (profile.subgroup, shape[0]), "matrix layout"),))
