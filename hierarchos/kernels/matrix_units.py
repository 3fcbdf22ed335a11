"""Matrix units of a device: what sizes of matrices they multiply (VK_KHR_cooperative_matrix)."""
from __future__ import annotations

from hierarchos.kernels.launch import Profile


def matrix_shape(profile: Profile, dtype: str) -> tuple[int, int, int] | None:
    """(m, n, k) of the device's matrices for a half format: the most cubic of them; None without matrix units."""
    shapes = [shape for format_, *shape in profile.matrices if format_ == dtype]
    return tuple(max(shapes, key=lambda s: (s[0] * s[1], s))) if shapes else None
