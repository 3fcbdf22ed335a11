#version 460
// Rotary position embedding of halves: as rope.comp, with x and y in a half format (BFLOAT: bf16, else f16) and fp32 arithmetic.
// Layouts: x and y [B,T,H,channels] halves with strides of batch, time and head (last stride 1), y may be x; cos, sin [table_rows, half] f32;
// positions i32 [B,T]. Limits: fewer than 2^32 elements in x; positions are clamped to the table. NumPy twin: rope_reference, rounded.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "half.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool INTERLEAVED = false;
layout(constant_id = 2) const bool INVERSE = false;
layout(constant_id = 3) const bool BFLOAT = false;

layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };

layout(push_constant, scalar) uniform Arguments {
    uint64_t x_address;
    Floats cosine, sine;
    Ints positions;
    uint64_t y_address;
    uvec3 stride, stride_y;
    uint tokens, times, heads, channels, half_, table_rows, heads_each;
};

float wide(const uint bits) { return BFLOAT ? from_bf16(bits) : from_f16(bits); }
uint narrow(const float value) { return BFLOAT ? to_bf16(value) : to_f16(value); }

void main() {
    Halves x = Halves(x_address), y = Halves(y_address);
    const uint each = channels - half_, index = gl_GlobalInvocationID.x, i = index % each;
    const bool live = index / each < tokens, rotated = i < half_;
    const uint token = min(index / each, tokens - 1), sequence = token / times, time = token % times;
    const uint first = !rotated ? i + half_ : INTERLEAVED ? 2 * i : i, second = !rotated ? first : INTERLEAVED ? 2 * i + 1 : i + half_;
    float c = 1.0, s = 0.0;
    if (rotated) {
        const uint row = uint(clamp(positions.at[token], 0, int(table_rows) - 1)) * half_ + i;
        c = cosine.at[row];
        s = INVERSE ? -sine.at[row] : sine.at[row];
    }
    const uint head = gl_WorkGroupID.y * heads_each, end_head = min(head + heads_each, heads);
    uint from = sequence * stride.x + time * stride.y + head * stride.z;
    uint to = sequence * stride_y.x + time * stride_y.y + head * stride_y.z;
    for (uint h = head; h < end_head; h++) {
        const float a = wide(uint(x.at[from + first])), b = wide(uint(x.at[from + second]));
        if (live) y.at[to + first] = uint16_t(narrow(rotated ? a * c - b * s : a));
        if (live && rotated) y.at[to + second] = uint16_t(narrow(b * c + a * s));
        from += stride.z;
        to += stride_y.z;
    }
}
