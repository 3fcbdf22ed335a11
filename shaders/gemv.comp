// Product of a few rows with a weight stored [N,K] (decoding): memory-bound, so each weight is read once, by whole lines.
//
//   C [M,N] = activation(scale * A [M,K] B [N,K]^T + bias + residual), M = ROWS <= 8
//
// One subgroup a column n: lanes stride over K, by vec4 where addresses and strides allow, then one subgroup sum for each row;
// its order depends on the subgroup size alone. NumPy twin: hierarchos.kernels.gemm.matmul_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "numerics.glsl"
#include "activation.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#include "gemm.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint ACTIVATION = 0;

void main() {
    uint lane = gl_SubgroupInvocationID, width = gl_SubgroupSize;
    uint64_t A = batch_entry(a, a_outer, a_inner), C = batch_entry(c, c_outer, c_inner), R = batch_entry(residual, r_outer, r_inner);
    uint first = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * gl_NumSubgroups + gl_SubgroupID;
    uint turn = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumSubgroups;     // right for any subgroup size that the driver picks
    for (uint column = first; column < n; column += turn) {
        uint64_t line = batch_entry(b, b_outer, b_inner) + 4ul * (uint64_t(column) * ldb);
        bool aligned = ((uint(A) | uint(line)) & 15) == 0 && lda % 4 == 0;
        uint quads = aligned ? k / 4 : 0;

        vec4 sum[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; i++) sum[i] = vec4(0.0);
        for (uint q = lane; q < quads; q += width) {
            vec4 w = Vec4s(line).at[q];
            [[unroll]] for (uint i = 0; i < ROWS; i++) sum[i] = fma(w, Vec4s(A + 4ul * (i * lda)).at[q], sum[i]);
        }
        for (uint step = 4 * quads + lane; step < k; step += width) {
            float w = Floats(line).at[step];
            [[unroll]] for (uint i = 0; i < ROWS; i++) sum[i].x = fma(w, Floats(A + 4ul * (i * lda)).at[step], sum[i].x);
        }
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            float v = subgroupAdd((sum[i].x + sum[i].y) + (sum[i].z + sum[i].w)) * scale;
            if (lane == 0) {
                if (bias != 0) v += Floats(bias).at[column];
                if (residual != 0) v += Floats(R).at[i * ldr + column];
                Floats(C).at[i * ldc + column] = activate(ACTIVATION, v);
            }
        }
    }
}
