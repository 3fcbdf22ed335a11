#version 460
// partial[l] = sum of x[i]^2 over the elements of lane l, in blocks of 32: the first stage of a sum over an arena, always in one order.
// Layouts: x flat f32 [count]; partial [workgroups * lanes], added up by `reduce`. A lane takes every lanes-th element of its
// workgroup's `chunk` (a multiple of 32 * lanes). NumPy twin: sum_of_squares_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
const uint BLOCK = 32;

layout(push_constant, scalar) uniform Arguments {
    Floats x, partial;
    uint count, chunk;
    uint zero;                                          // 0
};

void main() {
    Floats x_ = x;                                      // see rows.glsl
    const uint zero_ = zero;
    const uint lanes = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x;
    const uint begin = gl_WorkGroupID.x * chunk + lane, end = min(count, (gl_WorkGroupID.x + 1) * chunk);
    float total = 0.0;
    for (uint block = begin; block < end; block += BLOCK * lanes) {
        float sum = 0.0;
        const uint last = min(end, block + BLOCK * lanes);
        for (uint i = block; i < last; i += lanes) {
            const float v = x_.at[i + zero_];
            sum = fma(v, v, sum);
        }
        total += sum;
    }
    partial.at[gl_WorkGroupID.x * lanes + lane] = total;
}
