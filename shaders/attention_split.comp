#version 460
// An fp32 operand of an attention as pairs of float16 for matrix units: x times a power of two of its block of 64 lines, which brings the
// block's largest magnitude into [2^14, 2^15), is h + l with |x - h - l| <= max(2^-22 |x|, 2^-40 largest).
// Layouts: x [B,T,H,WIDTH] f32 with strides of batch, time and head (last stride 1); halves [B,H,T rounded up to 64,2,WIDTH], zeros in lines
// from T on, and behind them f32 [B,H,blocks], what undoes the power. Grid: blocks, heads, batch. Limits: WIDTH a multiple of 8.
// NumPy twin: attention_split.split_lines.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint ALL = 256;
layout(constant_id = 1) const uint WIDTH = 64;

layout(push_constant, scalar) uniform Arguments {
    uint64_t x, halves;
    uvec3 stride;
    uint lines;
};

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Eights { uvec4 at[]; };

const uint BLOCK = 64, EIGHTS = WIDTH / 8, LOADS = (BLOCK * EIGHTS + ALL - 1) / ALL;
shared uint found[ALL];

vec4 high_part(const vec4 x) { return uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & 0xFFFFE000u); }

uint magnitude(const vec4 v) {
    const uvec4 bits = floatBitsToUint(v) & 0x7FFFFFFFu;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

void main() {
    const uint id = gl_LocalInvocationID.x, block = gl_WorkGroupID.x, blocks = gl_NumWorkGroups.x;
    const uint problem = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    const uint64_t from = x + 4ul * (uint64_t(gl_WorkGroupID.z) * stride.x + uint64_t(gl_WorkGroupID.y) * stride.z);
    const bool aligned = ((uint(from) & 15) | (stride.y & 3)) == 0;
    vec4 mine[LOADS][2];
    uint most = 0;
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        const uint v = i * ALL + id, line = block * BLOCK + v / EIGHTS;
        const uint64_t place = from + 4ul * (uint64_t(line) * stride.y + v % EIGHTS * 8);
        mine[i][0] = mine[i][1] = vec4(0.0);
        if (v < BLOCK * EIGHTS && line < lines) {
            if (aligned) {
                mine[i][0] = Vec4s(place).at[0];
                mine[i][1] = Vec4s(place).at[1];
            } else {
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    mine[i][0][e] = Floats(place).at[e];
                    mine[i][1][e] = Floats(place).at[4 + e];
                }
            }
        }
        most = max(most, max(magnitude(mine[i][0]), magnitude(mine[i][1])));
    }
    most = subgroupMax(most);
    if (subgroupElect()) found[gl_SubgroupID] = most;
    barrier();
    [[dont_unroll]] for (uint i = 0; i < gl_NumSubgroups; i++) most = max(most, found[i]);
    const uint power = uint(clamp(268 - int(most >> 23), 1, 253)) << 23;
    const float factor = uintBitsToFloat(power);
    Eights target = Eights(halves + 2ul * uint64_t(problem) * blocks * BLOCK * 2 * WIDTH);
    [[unroll]] for (uint i = 0; i < LOADS; i++) {
        const uint v = i * ALL + id, at = (block * BLOCK + v / EIGHTS) * 2 * EIGHTS + v % EIGHTS;
        const vec4 a = mine[i][0] * factor, b = mine[i][1] * factor, ah = high_part(a), bh = high_part(b), al = a - ah, bl = b - bh;
        if (v < BLOCK * EIGHTS) {
            target.at[at] = uvec4(packHalf2x16(ah.xy), packHalf2x16(ah.zw), packHalf2x16(bh.xy), packHalf2x16(bh.zw));
            target.at[at + EIGHTS] = uvec4(packHalf2x16(al.xy), packHalf2x16(al.zw), packHalf2x16(bl.xy), packHalf2x16(bl.zw));
        }
    }
    const uint64_t all = 2ul * uint64_t(gl_NumWorkGroups.y * gl_NumWorkGroups.z) * blocks * BLOCK * 2 * WIDTH;
    if (id == 0) Floats(halves + all).at[problem * blocks + block] = uintBitsToFloat(0x7F000000u - power);
}
