// Products of up to 8 rows with a weight [N,K] by the vector loads of include/wide.glsl: include/gemv.glsl without a prologue.
//
// A workgroup is one subgroup with COLUMNS outputs of all rows. The whole program is one straight line, so K is a constant and bounded by
// what compiles in a second; a lane has elements LANES apart (half weights: pairs). The order of sums is that of gemv_cpu with words of
// all lanes side by side (TURNS = 1): a chain for each k mod 2 LANES (4 LANES), then pairs of chains from the furthest apart to neighbours.
// Limits: LANES 4 or 8, K a multiple of 2 LANES (4 LANES), COLUMNS a multiple of BESIDE and at most LANES, 2^18 workgroups.
// NumPy twin: gemv_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "numerics.glsl"
#include "activation.glsl"
#include "gemv.glsl"
layout(constant_id = 5) const uint WEIGHTS = 0;
layout(constant_id = 6) const uint COLUMNS = 8;
layout(constant_id = 7) const uint LANES = 8;
layout(constant_id = 8) const uint K = 64;
layout(constant_id = 9) const uint BESIDE = 4;      // outputs whose sums grow side by side

#include "over_lanes.glsl"
#include "wide.glsl"

const uint EACH = WEIGHTS == 0 ? 1 : 2, STEPS = K / (EACH * LANES);

// Elements of a weight from one word of each lane.
vec2 values(const float word) {
    if (WEIGHTS == 0) return vec2(word, 0.0);
    const uint bits = floatBitsToUint(word);
    return WEIGHTS == 1 ? unpackHalf2x16(bits) : uintBitsToFloat(uvec2(bits << 16, bits & 0xFFFF0000u));
}

void main() {
    const uint lane = gl_SubgroupInvocationID, group = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x;
    const uint first = UNIFORM_NUMBER(group, digits) * COLUMNS, column = group * COLUMNS + lane;
    vec2 a[ROWS][STEPS];
    [[unroll]] for (uint r = 0; r < ROWS; r++)
        [[unroll]] for (uint i = 0; i < STEPS; i++) {
            const uint64_t at = x + 4 * (r * ldx + EACH * LANES * i);
            a[r][i] = WEIGHTS == 0 ? vec2(wide(at), 0.0) : wide_pair(at);
        }
    float kept[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) kept[r] = 0.0;
    [[unroll]] for (uint base = 0; base < COLUMNS; base += BESIDE) {
        uint64_t from[BESIDE];
        [[unroll]] for (uint j = 0; j < BESIDE; j++) from[j] = w + uint64_t(min(first + base + j, n - 1)) * (ldw * (4 / EACH));
        precise vec2 sums[ROWS][BESIDE][2];             // else Mesa makes one chain of two
        [[unroll]] for (uint i = 0; i < STEPS; i++)
            [[unroll]] for (uint j = 0; j < BESIDE; j++) {
                const vec2 b = values(wide(from[j] + 4 * LANES * i));
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    if (i < 2) sums[r][j][i] = vec2(0.0);
                    sums[r][j][i % 2].x = fma(a[r][i].x, b.x, sums[r][j][i % 2].x);
                    if (WEIGHTS != 0) sums[r][j][i % 2].y = fma(a[r][i].y, b.y, sums[r][j][i % 2].y);
                }
            }
        [[unroll]] for (uint j = 0; j < BESIDE; j++)
            [[unroll]] for (uint r = 0; r < ROWS; r++) {
                precise vec2 sum = sums[r][j][0] + sums[r][j][1];
                sum.x = over_lanes(sum.x);
                if (WEIGHTS != 0) sum.x += over_lanes(sum.y);
                kept[r] = mix(kept[r], sum.x, lane == base + j);
            }
    }
    if (lane < COLUMNS && column < n)
        [[unroll]] for (uint r = 0; r < ROWS; r++) Floats(c).at[r * ldc + column] = epilogue(kept[r], r, column);
}
