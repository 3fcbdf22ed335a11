// Second stage of a product whose K was split: C = activation(scale * sum over parts + bias + residual), parts in order.
//
// parts [splits, batch, M, N] contiguous; one output a lane, batch entry z. NumPy twin: hierarchos.kernels.gemm.matmul_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "activation.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ACTIVATION = 0;

layout(push_constant, scalar) uniform Arguments {
    Floats parts, c, bias, residual;
    uint m, n, splits, part_stride, ldc, ldr;
    uint batch_inner;
    uint c_outer, c_inner, r_outer, r_inner;
    float scale;
};

void main() {
    uint index = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (index >= m * n) return;
    uint i = index / n, j = index % n;
    uint outer = gl_WorkGroupID.z / batch_inner, inner = gl_WorkGroupID.z % batch_inner;
    float v = 0.0;
    for (uint part = 0; part < splits; part++) v += parts.at[part * part_stride + gl_WorkGroupID.z * m * n + index];
    v *= scale;
    if (uint64_t(bias) != 0) v += bias.at[j];
    if (uint64_t(residual) != 0) v += residual.at[outer * r_outer + inner * r_inner + i * ldr + j];
    c.at[outer * c_outer + inner * c_inner + i * ldc + j] = activate(ACTIVATION, v);
}
