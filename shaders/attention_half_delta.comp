#version 460
// delta[b,h,t] = sum over channels of out * dout, for the gradients of an attention over halves.
// Layouts: out and dout [B,T,H,width] halves contiguous, width a multiple of 8; delta [B,H,T] f32. One invocation a row.
// NumPy twin: in attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "half.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool BFLOAT = false;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Vectors { uvec4 at[]; };

layout(push_constant, scalar) uniform Arguments {
    Vectors outcome, dout;
    Floats delta;
    uint rows, times, heads, width;
};

float wide(const uint bits) { return BFLOAT ? from_bf16(bits) : from_f16(bits); }

void main() {
    const uint row = gl_GlobalInvocationID.x, from = min(row, rows - 1) * (width / 8);
    float sum = 0.0;
    for (uint i = 0; i < width / 8; i++) {
        const uvec4 a = outcome.at[from + i], b = dout.at[from + i];
        for (uint e = 0; e < 4; e++)
            sum += wide(a[e] & 0xFFFFu) * wide(b[e] & 0xFFFFu) + wide(a[e] >> 16) * wide(b[e] >> 16);
    }
    const uint head = row % heads, time = row / heads % times, batch = row / heads / times;
    if (row < rows) delta.at[(batch * heads + head) * times + time] = sum;
}
