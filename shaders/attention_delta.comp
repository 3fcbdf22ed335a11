#version 460
// What the backward kernels of attention read for each row, gathered in one place.
//     stats = lse [B,Hq,T], delta [B,Hq,T] = sum over channels of dout * outcome, seed [2], offsets [B] (given, or keys - queries)
// Layouts: outcome and dout [B,T,Hq,channels], lse [B,Hq,T], all contiguous. One invocation a row. NumPy twin: attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
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
    const uint rows = batch * queries * heads, row = gl_GlobalInvocationID.x;
    if (row >= rows) return;
    const uint b = row / (queries * heads), t = row / heads % queries, h = row % heads, n = (b * heads + h) * queries + t;
    float parts[4] = { 0.0, 0.0, 0.0, 0.0 };           // four loads of each under way at a time
    uint at = row * channels;
    const uint stop = at + channels;
    for (; at + 4 <= stop; at += 4)
        [[unroll]] for (uint u = 0; u < 4; u++) parts[u] = fma(dout.at[at + u], outcome.at[at + u], parts[u]);
    for (; at < stop; at++) parts[0] = fma(dout.at[at], outcome.at[at], parts[0]);
    const float delta = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    stats.at[n] = lse.at[n];
    stats.at[rows + n] = delta;
    if (row == 0) {
        Uints words = Uints(stats);
        words.at[2 * rows] = uint64_t(seed) != 0 ? seed.at[0] : 0;
        words.at[2 * rows + 1] = uint64_t(seed) != 0 ? seed.at[1] : 0;
    }
    if (row < batch) Ints(stats).at[2 * rows + 2 + row] = uint64_t(offsets) != 0 ? offsets.at[row] : int(keys) - int(queries);
}
