"""How matrices lie in a subgroup: what is taken for a layout that kernels can use, without a device, and what a device answers."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hierarchos.graph.matrix_layouts import layouts_of
from hierarchos.graph.profile import profile_of
from hierarchos.kernels.launch import Profile
from hierarchos.kernels.matrix_layout import MatrixLayout, cells_of, layout_from, layout_lowering

NVIDIA = MatrixLayout(((0, 1), (0, 8), (8, 0)), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)))
MESA = MatrixLayout(((1, 0), (2, 0), (4, 0)), ((0, 1), (0, 2), (0, 4)))


@pytest.mark.parametrize(("layout", "side"), [(NVIDIA, 16), (MESA, 8)])
def test_a_layout_is_found_again_and_covers_the_matrix(layout, side):
    cells = cells_of(layout)
    assert layout_from(np.stack([cells, cells])) == layout
    assert sorted(cells.ravel()) == sorted(16 * row + column for row in range(side) for column in range(side))


def test_constants_hold_four_bits_for_each_bit():
    assert NVIDIA.constants == (0x800, 0x081, 0x42100, 0x00042)


def test_other_layouts_are_left_alone():
    cells = cells_of(NVIDIA)
    turned = cells_of(MatrixLayout(((1, 0), (8, 0), (0, 8)), ((2, 0), (4, 0), (0, 1), (0, 2), (0, 4))))
    mixed = cells.copy()
    mixed[[3, 4]] = mixed[[4, 3]]
    assert layout_from(np.stack([cells, turned])) is None           # operands lie otherwise than sums
    assert layout_from(np.stack([mixed, mixed])) is None            # no sum over bits
    assert layout_from(np.stack([cells[:, :4], cells[:, :4]])) is None


@pytest.mark.parametrize("matrices", [(), (("f16", 16, 8, 16),), (("f16", 16, 16, 16),)])
def test_devices_without_such_matrices_are_not_asked(matrices):
    assert layout_lowering(Profile("gpu", 64, 49152, matrices=matrices), "f16") is None


def test_a_description_of_a_device_is_not_asked():
    assert layouts_of(object(), Profile("gpu", 32, matrices=(("f16", 16, 16, 16),))) == ()


def test_a_device_with_matrix_units_answers(device):
    profile = replace(profile_of(device), device_class="gpu")
    if not profile.matrices:
        pytest.skip("the device has no matrix units")
    for _, layout in layouts_of(device, profile):
        assert layout in (NVIDIA, MESA)
