// Keys and values of T tokens into a ring: cache [b, (offset[b] + t) mod SLOTS] = row t, for t < count[b] (tokens behind are padding and
// would overwrite what is still needed). Keys are rotated where there are tables (half_ > 0).
//
// An invocation writes one channel of one head of one token: grid over B * T * Hk * (D + Dv). Layouts: k [B,T,Hk,D] and v [B,T,Hk,Dv]
// with strides of batch, time and head; caches row-major. NumPy twin: hierarchos.kernels.cached_attention.cache_write_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool INTERLEAVED = false;
layout(constant_id = 2) const uint TABLE_ROWS = 1;
layout(constant_id = 3) const uint HALF = 0;

layout(push_constant, scalar) uniform Arguments {
    Floats k, v, keys, values;
    Ints offset, count;
    Floats cosine, sine;
    Ints positions;
    uint total, times, heads, d, dv, slots;
    uvec3 stride_k, stride_v;
};

void main() {
    Floats k_ = k, v_ = v, keys_ = keys, values_ = values;
    const uint index = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x, both = d + dv;
    const bool inside = index < total;
    const uint i = index % both, row = min(index, total - 1) / both;
    const uint head = row % heads, time = (row / heads) % times, batch = row / (heads * times);
    const bool live = inside && int(time) < count.at[batch];
    const uint slot = uint(offset.at[batch] + int(time)) % slots, to = (batch * slots + slot) * heads + head;
    if (live && i < d) {
        const uint from = batch * stride_k.x + time * stride_k.y + head * stride_k.z;
        const float a = k_.at[from + i];
        float y = a;
        if (HALF > 0 && i < 2 * HALF) {
            const uint entry = uint(clamp(positions.at[batch * times + time], 0, int(TABLE_ROWS) - 1)) * HALF + (INTERLEAVED ? i / 2 : i % HALF);
            const bool first = INTERLEAVED ? i % 2 == 0 : i < HALF;
            const float b = k_.at[from + (INTERLEAVED ? i ^ 1 : first ? i + HALF : i - HALF)];
            y = first ? a * cosine.at[entry] - b * sine.at[entry] : a * cosine.at[entry] + b * sine.at[entry];
        }
        keys_.at[to * d + i] = y;
    }
    if (live && i >= d) values_.at[to * dv + i - d] = v_.at[batch * stride_v.x + time * stride_v.y + head * stride_v.z + i - d];
}
