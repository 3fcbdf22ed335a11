"""A small kernel for the tests of the device layer, compiled from source when they start."""
from __future__ import annotations

import struct

import pytest

from hierarchos.vulkan.commands import Dispatch, Shader, Span

AXPY = """#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint extra = 0;
layout(push_constant, scalar) uniform Push { Floats x; Floats y; uint n; float a; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) y.at[i] = a * x.at[i] + y.at[i] + float(extra);
}
"""


@pytest.fixture(scope="session")
def axpy_shader(tmp_path_factory) -> Shader:
    """y += a x + (specialization constant 1)."""
    from shaders.build import compile_shader
    folder = tmp_path_factory.mktemp("shader")
    source, target = folder / "axpy.comp", folder / "axpy.spv"
    source.write_text(AXPY)
    assert compile_shader(source, target) == ""
    return Shader("axpy", target.read_bytes())


@pytest.fixture
def axpy(axpy_shader):
    """Makes the dispatch `y[0:n] += a x[0:n] + extra` for two addresses."""
    def make(x: int, y: int, n: int, a: float = 1.0, extra: int = 0, label: str = "axpy") -> Dispatch:
        push = struct.pack("<QQIf", x, y, n, a)
        return Dispatch(axpy_shader, (8, extra), push, ((n + 7) // 8, 1, 1), (Span(x, 4 * n), Span(y, 4 * n)), (Span(y, 4 * n),), label,
                        operations=2 * n, bytes_moved=12 * n)
    return make


@pytest.fixture
def arena(device):
    """One MiB of zeroed device memory, given back after the test."""
    allocation = device.allocate(1 << 20, "arena")
    yield allocation
    allocation.free()


@pytest.fixture
def own_device(tmp_path):
    """Opens devices that one test may break; closes them, and the validation layer must have had nothing to say."""
    from hierarchos.vulkan import open_device, validation_available
    opened = []

    def make(**options):
        options = {"validation": validation_available(), "pipeline_folder": tmp_path} | options
        opened.append(open_device("auto", **options))
        return opened[-1]
    yield make
    for device in opened:
        device.close()
        assert device.validation_messages == []
