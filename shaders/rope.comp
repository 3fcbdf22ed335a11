#version 460
// Rotary position embedding: for each pair of channels (a, b) among the first 2 * half, with the table row of the token's position,
//     (a, b) -> (a cos - b sin, b cos + a sin),  with -sin when inverse; the other channels are copied.
// Layouts: x and y [B,T,H,channels] with strides of batch, time and head (last stride 1), y may be x; cos, sin [table_rows, half];
// positions i32 [B,T]. Pair c is (c, c + half), or (2c, 2c + 1) when interleaved. An invocation does one pair (or copies
// one channel) of `heads_each` heads; grid: token * (channels - half) in x, head blocks in y.
// Limits: fewer than 2^32 elements in x; positions are clamped to the table. NumPy twin: rope_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool INTERLEAVED = false;
layout(constant_id = 2) const bool INVERSE = false;

layout(push_constant, scalar) uniform Arguments {
    Floats x, cosine, sine;
    Ints positions;
    Floats y;
    uvec3 stride, stride_y;
    uint tokens, times, heads, channels, half_, table_rows, heads_each;
};

void main() {
    const uint each = channels - half_, index = gl_GlobalInvocationID.x, token = index / each, i = index % each;
    if (token >= tokens) return;
    const bool rotated = i < half_;
    const uint first = !rotated ? i + half_ : INTERLEAVED ? 2 * i : i, second = INTERLEAVED ? 2 * i + 1 : i + half_;
    const uint row = uint(clamp(positions.at[token], 0, int(table_rows) - 1)) * half_ + min(i, max(half_, 1) - 1);
    float c = 1.0, s = 0.0;
    if (rotated) {
        c = cosine.at[row];
        s = INVERSE ? -sine.at[row] : sine.at[row];
    }
    const uint head = gl_WorkGroupID.y * heads_each, end_head = min(head + heads_each, heads);
    uint from = (token / times) * stride.x + (token % times) * stride.y + head * stride.z;
    uint to = (token / times) * stride_y.x + (token % times) * stride_y.y + head * stride_y.z;
    for (uint h = head; h < end_head; h++) {
        const float a = x.at[from + first];
        if (rotated) {
            const float b = x.at[from + second];
            y.at[to + first] = a * c - b * s;
            y.at[to + second] = b * c + a * s;
        } else {
            y.at[to + first] = a;
        }
        from += stride.z;
        to += stride_y.z;
    }
}
