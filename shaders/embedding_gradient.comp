#version 460
// Gradient of a row lookup: for the first position of each id, walks the chain of embedding_chain.comp in order and sums the rows of g, in
// blocks of 16:  target[id] = (ADD ? target[id] : 0) + sum over its positions of g[i].  Rows of other ids are not written.
// Layouts: ids i32 [count], chain u32 [count], g [count, width], target [vocabulary, width], contiguous. Each row has one writer: no
// atomics, the same bits in every run. NumPy twin: embedding_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ADD = false;
layout(push_constant, scalar) uniform Arguments {
    Ints ids;
    Uints chain;
    Floats g, target;
    uint count, vocabulary, width;
};
const uint BLOCK = 16;

float sum_chain(uint i, const uint d) {
    float total = 0.0;
    while (i < count) {
        float part = 0.0;
        for (uint k = 0; k < BLOCK && i < count; k++) {
            part += g.at[i * width + d];
            i = chain.at[i] & 0x7fffffffu;
        }
        total += part;
    }
    return total;
}

void main() {
    const uint groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    for (uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; i < count; i += groups) {
        const int id = ids.at[i];
        if ((chain.at[i] & 0x80000000u) == 0 || id < 0 || uint(id) >= vocabulary) continue;
        for (uint d = gl_LocalInvocationID.x; d < width; d += gl_WorkGroupSize.x) {
            const uint at = uint(id) * width + d;
            target.at[at] = sum_chain(i, d) + (ADD ? target.at[at] : 0.0);
        }
    }
}
