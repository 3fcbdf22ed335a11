"""Asks an opened device how its matrix units lay matrices out in a subgroup; once for each device."""
from __future__ import annotations

from hierarchos.graph.binding import bind
from hierarchos.kernels.launch import Operand, Profile, row_major
from hierarchos.kernels.matrix_layout import ELEMENTS, MatrixLayout, layout_from, layout_lowering

Layouts = tuple[tuple[str, MatrixLayout], ...]


def layouts_of(device, profile: Profile) -> Layouts:
    """(format, layout) of the formats whose matrices are laid out in a way that kernels can use; nothing is asked twice.

    device: opened, or a description of one, which cannot be asked."""
    if not hasattr(device, "execute") or not profile.matrices:
        return ()
    if not hasattr(device, "matrix_layouts"):
        found = ((dtype, ask(device, profile, dtype)) for dtype in dict.fromkeys(entry[0] for entry in profile.matrices))
        device.matrix_layouts = tuple((dtype, layout) for dtype, layout in found if layout)
    return device.matrix_layouts


def ask(device, profile: Profile, dtype: str) -> MatrixLayout | None:
    import numpy as np

    lowering, shape = layout_lowering(profile, dtype), (2, profile.subgroup, ELEMENTS)
    if lowering is None:
        return None
    block = device.allocate(4 * int(np.prod(shape)), "matrix layout")
    try:
        device.execute(bind(lowering, [], [(block.address, Operand(shape, "i32", row_major(shape)))]))
        return layout_from(np.frombuffer(bytes(device.download(block.address, block.nbytes)), np.uint32).reshape(shape))
    finally:
        block.free()
