#version 460
// Rotary position embedding: (a, b) -> (a c - b s, b c + a s) with c, s = cos, sin[position][pair], for each pair of channels
// among the first 2 * half of a head; the channels after them are copied. s changes its sign with INVERSE.
// Layouts: x [B, T, H, D] by strides; cos, sin [P, half], positions [B * T], target [B, T, H, D] contiguous. A position outside [0, P)
// is clamped. A workgroup takes `tokens_each` tokens; UNITS_APART: lanes walk one head after the other (CPU drivers, no divisions).
// NumPy twin: rope_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool INTERLEAVED = false;
layout(constant_id = 2) const bool INVERSE = false;
layout(constant_id = 3) const bool UNITS_APART = false;

layout(push_constant, scalar) uniform Arguments {
    Floats x, cosines, sines;
    Ints positions;
    Floats target;
    uint tokens, tokens_each, length, heads, width, half_width, table;
    uint batch_stride, time_stride, head_stride, channel_stride;
};

void rotate(const uint from, const uint to, const uint angle, const uint u) {
    if (u >= half_width) {                             // beyond the pairs
        const uint channel = u + half_width;
        target.at[to + channel] = x.at[from + channel * channel_stride];
        return;
    }
    const uint first = INTERLEAVED ? 2 * u : u, second = INTERLEAVED ? 2 * u + 1 : u + half_width;
    const float c = cosines.at[angle + u], s = INVERSE ? -sines.at[angle + u] : sines.at[angle + u];
    const float a = x.at[from + first * channel_stride], b = x.at[from + second * channel_stride];
    target.at[to + first] = fma(a, c, -(b * s));
    target.at[to + second] = fma(b, c, a * s);
}

void main() {
    const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, units = width - half_width;
    const uint workgroup = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    const uint end = min(tokens, (workgroup + 1) * tokens_each);
    for (uint token = workgroup * tokens_each; token < end; token++) {
        const uint row = token / length;
        const uint from = row * batch_stride + (token - row * length) * time_stride, to = token * heads * width;
        const uint angle = uint(clamp(positions.at[token], 0, int(table) - 1)) * half_width;
        if (UNITS_APART) {
            for (uint head = 0; head < heads; head++)
                for (uint u = lane; u < units; u += lanes) rotate(from + head * head_stride, to + head * width, angle, u);
        } else {
            for (uint i = lane; i < heads * units; i += lanes) {
                const uint head = i / units;
                rotate(from + head * head_stride, to + head * width, angle, i - head * units);
            }
        }
    }
}
