// Products of up to 8 rows with a weight [N,K] on CPU drivers: include/gemv.glsl without a prologue.
//
// A workgroup is one subgroup. It keeps a part of x in registers and walks down its COLUMNS outputs, so that weights come as one stream;
// where x has several parts, sums wait in a private array. A lane has TURNS words of 8 bytes side by side: one load of all lanes touches
// as many lines as there are lanes, and they arrive together (docs/performance.md has the readings). The order of sums depends on K and
// TURNS alone; with TURNS = 1 it is that of gemv_wide.
// Limits: K = 2 * LANES * TURNS * BLOCKS * parts (half weights: 4 * ...), ldw even (a multiple of 4), fewer than 2^32 elements.
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
layout(constant_id = 6) const uint COLUMNS = 64;
layout(constant_id = 7) const uint LANES = 8;
layout(constant_id = 8) const uint TURNS = 8;       // words of a lane that lie side by side
layout(constant_id = 9) const uint BLOCKS = 4;      // of 8 * LANES * TURNS bytes in a part
layout(constant_id = 10) const bool WHOLE = false;  // K is one part

#include "over_lanes.glsl"

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Words { uint64_t at[]; };

const uint PART = TURNS * BLOCKS, VALUES = WEIGHTS == 0 ? 2 : 4, WAITING = WHOLE ? 1 : COLUMNS;

vec2 pair(const uint64_t word) { return uintBitsToFloat(uvec2(uint(word), uint(word >> 32))); }

// Values of a word of the weight.
vec4 values(const uint64_t word) {
    const uint a = uint(word), b = uint(word >> 32);
    if (WEIGHTS == 0) return vec4(uintBitsToFloat(uvec2(a, b)), 0.0, 0.0);
    if (WEIGHTS == 1) return vec4(unpackHalf2x16(a), unpackHalf2x16(b));
    return uintBitsToFloat(uvec4(a << 16, a & 0xFFFF0000u, b << 16, b & 0xFFFF0000u));
}

uint place(const uint part, const uint i, const uint lane) { return ((part * BLOCKS + i / TURNS) * LANES + lane) * TURNS + i % TURNS; }

void main() {
    const uint lane = gl_SubgroupInvocationID, columns = n, line = ldw / VALUES, lx = ldx / 2;
    const uint parts = WHOLE ? 1 : k / (VALUES * LANES * PART);
    Words weights = Words(w), rows = Words(x);
    const uint first = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * COLUMNS, end = min(first + COLUMNS, columns);
    vec4 waiting[ROWS][WAITING];
    for (uint part = 0; part < parts; part++) {
        vec4 a[ROWS][PART];
        [[unroll]] for (uint r = 0; r < ROWS; r++)
            [[unroll]] for (uint i = 0; i < PART; i++) {
                const uint at = r * lx + (VALUES / 2) * place(part, i, lane);
                a[r][i] = vec4(pair(rows.at[at]), WEIGHTS == 0 ? vec2(0.0) : pair(rows.at[at + 1]));
            }
        for (uint base = first; base < end; base += LANES) {
            float kept[ROWS];
            [[unroll]] for (uint r = 0; r < ROWS; r++) kept[r] = 0.0;
            for (uint j = 0; j < LANES; j++) {
                const uint at = min(base + j, columns - 1) * line, slot = WHOLE ? 0 : base + j - first;
                precise vec4 sum[ROWS];
                [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r] = part == 0 ? vec4(0.0) : waiting[r][slot];
                [[unroll]] for (uint i = 0; i < PART; i++) {
                    const vec4 b = values(weights.at[at + place(part, i, lane)]);
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        sum[r].xy = fma(a[r][i].xy, b.xy, sum[r].xy);
                        if (WEIGHTS != 0) sum[r].zw = fma(a[r][i].zw, b.zw, sum[r].zw);
                    }
                }
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    if (part + 1 < parts) {
                        waiting[r][slot] = sum[r];
                        continue;
                    }
                    precise vec2 v = vec2(over_lanes(sum[r].x), over_lanes(sum[r].y));
                    if (WEIGHTS != 0) v += vec2(over_lanes(sum[r].z), over_lanes(sum[r].w));
                    const float total = v.x + v.y;
                    kept[r] = lane == j ? total : kept[r];
                }
            }
            if (part + 1 == parts && base + lane < columns)
                [[unroll]] for (uint r = 0; r < ROWS; r++) Floats(c).at[r * ldc + base + lane] = epilogue(kept[r], r, base + lane);
        }
    }
}
