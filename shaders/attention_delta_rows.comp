#version 460
// As attention_delta.comp, for GPUs: eight invocations a row, so that neighbours read neighbours.
//     stats = lse [B,Hq,T], delta [B,Hq,T] = sum over channels of dout * outcome, seed [2], offsets [B] (given, or keys - queries)
// Layouts: outcome and dout [B,T,Hq,channels], lse [B,Hq,T], all contiguous. NumPy twin: attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats outcome, dout, lse;
    Floats stats;
    Uints seed;
    Ints offsets;
    uint batch, queries, keys, heads, channels;
};

void main() {
    const uint rows = batch * queries * heads, lane = gl_LocalInvocationID.x % 8;
    const uint row = ((gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x) / 8;
    const uint b = row / (queries * heads), t = row / heads % queries, h = row % heads, n = (b * heads + h) * queries + t;
    const bool inside = row < rows, quads = channels % 4 == 0 && ((uint(uint64_t(outcome)) | uint(uint64_t(dout))) & 15) == 0;
    float delta = 0.0;
    if (inside && quads)
        for (uint at = row * channels / 4 + lane; at < (row + 1) * channels / 4; at += 8) {
            const vec4 x = Vec4s(dout).at[at], y = Vec4s(outcome).at[at];
            delta = fma(x.w, y.w, fma(x.z, y.z, fma(x.y, y.y, fma(x.x, y.x, delta))));
        }
    else if (inside)
        for (uint at = row * channels + lane; at < (row + 1) * channels; at += 8) delta = fma(dout.at[at], outcome.at[at], delta);
    delta += subgroupShuffleXor(delta, 1);
    delta += subgroupShuffleXor(delta, 2);
    delta += subgroupShuffleXor(delta, 4);
    if (inside && lane == 0) {
        stats.at[n] = lse.at[n];
        stats.at[rows + n] = delta;
        if (row < batch) Ints(stats).at[2 * rows + 2 + row] = uint64_t(offsets) != 0 ? offsets.at[row] : int(keys) - int(queries);
        if (row == 0) {
            Uints words = Uints(stats);
            words.at[2 * rows] = uint64_t(seed) != 0 ? seed.at[0] : 0;
            words.at[2 * rows + 1] = uint64_t(seed) != 0 ? seed.at[1] : 0;
        }
    }
}
