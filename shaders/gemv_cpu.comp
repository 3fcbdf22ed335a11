// Products of up to 8 rows with a weight [N,K] on CPU drivers: include/gemv.glsl without a prologue.
//
// A workgroup is one subgroup with COLUMNS outputs of each row: lanes stride over K by pairs of floats (64-bit loads; four halves), and x
// is loaded once for all columns. Indices are 32-bit offsets from push constants (docs/performance.md says what else costs).
// Limits: K a multiple of 2 * lanes (half weights: 4 * lanes), ldw even (a multiple of 4), fewer than 2^32 elements. NumPy twin: gemv_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#include "numerics.glsl"
#include "activation.glsl"
#include "gemv.glsl"
layout(constant_id = 5) const uint WEIGHTS = 0;
layout(constant_id = 6) const uint COLUMNS = 4;
layout(constant_id = 7) const uint LANES = 8;

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Words { uint64_t at[]; };

vec2 pair(const uint64_t word) { return uintBitsToFloat(uvec2(uint(word), uint(word >> 32))); }

vec4 quad(const uint64_t word) {
    const uint a = uint(word), b = uint(word >> 32);
    if (WEIGHTS == 1) return vec4(unpackHalf2x16(a), unpackHalf2x16(b));
    return uintBitsToFloat(uvec4(a << 16, a & 0xFFFF0000u, b << 16, b & 0xFFFF0000u));
}

void main() {
    const uint lane = gl_SubgroupInvocationID, columns = n, length = k, line = ldw, lx = ldx;
    Words weights = Words(w), values = Words(x);
    const uint first = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * COLUMNS;
    vec2 sum[ROWS][COLUMNS];
    uint at[COLUMNS];
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        at[j] = min(first + j, columns - 1) * (line / (WEIGHTS == 0 ? 2 : 4)) + lane;
        [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r][j] = vec2(0.0);
    }
    if (WEIGHTS == 0) {
        for (uint i = 0; i < length / (2 * LANES); i++) {
            vec2 a[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) a[r] = pair(values.at[r * (lx / 2) + i * LANES + lane]);
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                const vec2 b = pair(weights.at[at[j] + i * LANES]);
                [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r][j] = fma(a[r], b, sum[r][j]);
            }
        }
    } else {
        for (uint i = 0; i < length / (4 * LANES); i++) {
            vec4 a[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                const uint place = r * (lx / 2) + 2 * (i * LANES + lane);
                a[r] = vec4(pair(values.at[place]), pair(values.at[place + 1]));
            }
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                const vec4 b = quad(weights.at[at[j] + i * LANES]);
                [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r][j] = fma(a[r].zw, b.zw, fma(a[r].xy, b.xy, sum[r][j]));
            }
        }
    }
    [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const float v = subgroupAdd(sum[r][j].x + sum[r][j].y);
            if (lane == 0 && first + j < columns) Floats(c).at[r * ldc + first + j] = epilogue(v, r, first + j);
        }
    }
}
