// Matrix product of any layout, one output a lane, for shapes that the tiled kernels do not take (K = 1, one column, one row).
//
//   C [M,N] = activation(scale * op(A) op(B) + bias + residual); op(A)[i,k] at i a_row + k a_column, op(B)[k,j] at k b_row + j b_column
//
// A sum over blocks of 64 k of chains of FMAs, as in gemm_cpu. Strides are in elements. NumPy twin: hierarchos.kernels.gemm.matmul_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "activation.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ACTIVATION = 0;

layout(push_constant, scalar) uniform Arguments {
    Floats a, b, c, bias, residual;
    uint m, n, k, a_row, a_column, b_row, b_column, ldc, ldr;
    uint batch_inner;
    uint a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, r_outer, r_inner;
    float scale;
};

void main() {
    uint index = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (index >= m * n) return;
    uint i = index / n, j = index % n;
    uint outer = gl_WorkGroupID.z / batch_inner, inner = gl_WorkGroupID.z % batch_inner;
    uint at_a = outer * a_outer + inner * a_inner + i * a_row;
    uint at_b = outer * b_outer + inner * b_inner + j * b_column;
    float total = 0.0;
    for (uint block = 0; block < k; block += 64) {
        float sum = 0.0;
        for (uint step = block; step < min(k, block + 64); step++) sum = fma(a.at[at_a + step * a_column], b.at[at_b + step * b_row], sum);
        total += sum;
    }
    float v = total * scale;
    if (uint64_t(bias) != 0) v += bias.at[j];
    if (uint64_t(residual) != 0) v += residual.at[outer * r_outer + inner * r_inner + i * ldr + j];
    c.at[outer * c_outer + inner * c_inner + i * ldc + j] = activate(ACTIVATION, v);
}
