#version 460
// Adds up what the query heads of a group give to the gradients of their key head, in order.
//     dk[b,s,h,d] = sum_g parts_k[b,s,h,g,d], and dv from parts_v
// Layouts: all contiguous; `size_k` and `size_v` elements of dk and dv, one invocation for each of both together.
// NumPy twin: sum_groups of attention_reference.py.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats parts_k, parts_v, dk, dv;
    uint size_k, size_v, width, value_width, group;
};

void main() {
    uint index = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    const bool values = index >= size_k;
    index -= values ? size_k : 0;
    if (values && index >= size_v) return;
    Floats parts = values ? parts_v : parts_k;
    const uint channels = values ? value_width : width, first = index / channels * channels * group + index % channels;
    float sum = 0.0;
    for (uint g = 0; g < group; g++) sum += parts.at[first + g * channels];
    if (values) dv.at[index] = sum;
    else dk.at[index] = sum;
}
