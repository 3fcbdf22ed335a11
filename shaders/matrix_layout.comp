#version 460
// Which elements of a matrix each invocation of a subgroup holds: cells[use][lane][i] = 16 row + column of element i of an accumulator
// (use 0) and of a matrix A (use 1) of SIDE x SIDE. Kernels that work on elements of matrices ask for it (kernels/matrix_layout.py).
// Limits: SIDE is 8 or 16, the same in all three directions; eight elements an invocation. NumPy twin: matrix_layout.cells_of.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint ALL = 32;
layout(constant_id = 1) const uint SIDE = 16;

layout(push_constant, scalar) uniform Arguments { Uints cells; };

shared uvec4 wide[SIDE * SIDE / 4], halves[SIDE * SIDE / 8];

void main() {
    const uint id = gl_LocalInvocationID.x;
    for (uint i = id; i < SIDE * SIDE; i += ALL) wide[i / 4][i % 4] = floatBitsToUint(float(i / SIDE * 16 + i % SIDE));
    // Numbers up to 255 are alike in float16 and bfloat16 when written by their bits: 8 bits of them.
    for (uint i = id; i < SIDE * SIDE / 8; i += ALL) halves[i] = uvec4(0);
    barrier();
    coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator> sum;
    coopMatLoad(sum, wide, 0, SIDE / 4, gl_CooperativeMatrixLayoutRowMajor);
    [[unroll]] for (uint i = 0; i < 8; i++) cells.at[8 * id + i] = uint(sum[i]);
    [[dont_unroll]] for (uint bit = 0; bit < 8; bit++) {
        barrier();
        for (uint i = id; i < SIDE * SIDE / 8; i += ALL)
            [[unroll]] for (uint e = 0; e < 8; e++) {
                const uint cell = (8 * i + e) / SIDE * 16 + (8 * i + e) % SIDE;
                if (e == 0) halves[i] = uvec4(0);
                halves[i][e / 2] |= (cell >> bit & 1u) << (16 * (e & 1) + 14);       // 2.0 in both formats
            }
        barrier();
        coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseA> a;
        coopMatLoad(a, halves, 0, SIDE / 8, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint i = 0; i < 8; i++) {
            const uint at = 8 * (ALL + id) + i, before = bit == 0 ? 0 : cells.at[at];
            cells.at[at] = before | (float(a[i]) == 2.0 ? 1u << bit : 0u);
        }
    }
}
