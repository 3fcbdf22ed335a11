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
    Floats x_ = x, cosine_ = cosine, sine_ = sine, y_ = y;                      // copies, and no early return: see rows.glsl
    const uint step = stride.z, step_y = stride_y.z, half_width = half_;
    const uint each = channels - half_width, index = gl_GlobalInvocationID.x, i = index % each;
    const bool live = index / each < tokens, rotated = i < half_width;
    const uint token = min(index / each, tokens - 1), sequence = token / times, time = token % times;
    const uint first = !rotated ? i + half_width : INTERLEAVED ? 2 * i : i, second = !rotated ? first : INTERLEAVED ? 2 * i + 1 : i + half_width;
    float c = 1.0, s = 0.0;
    if (rotated) {
        const uint row = uint(clamp(positions.at[token], 0, int(table_rows) - 1)) * half_width + i;
        c = cosine_.at[row];
        s = INVERSE ? -sine_.at[row] : sine_.at[row];
    }
    const uint head = gl_WorkGroupID.y * heads_each, end_head = min(head + heads_each, heads);
    uint from = sequence * stride.x + time * stride.y + head * step;
    uint to = sequence * stride_y.x + time * stride_y.y + head * step_y;
    for (uint h = head; h < end_head; h++) {
        const float a = x_.at[from + first], b = x_.at[from + second];
        if (live) y_.at[to + first] = rotated ? a * c - b * s : a;
        if (live && rotated) y_.at[to + second] = b * c + a * s;
        from += step;
        to += step_y;
    }
}
