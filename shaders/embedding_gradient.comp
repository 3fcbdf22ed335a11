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

Floats g_;                                              // copies from outside the loops: see rows.glsl
Uints chain_;
uint count_, width_;

float sum_chain(uint i, const uint d) {
    float total = 0.0;
    while (i < count_) {
        float part = 0.0;
        for (uint k = 0; k < BLOCK && i < count_; k++) {
            part += g_.at[i * width_ + d];
            i = chain_.at[i] & 0x7fffffffu;
        }
        total += part;
    }
    return total;
}

void main() {
    Ints ids_ = ids;
    Floats target_ = target;
    g_ = g;
    chain_ = chain;
    count_ = count;
    width_ = width;
    const uint groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y, vocabulary_ = vocabulary;
    for (uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; i < count_; i += groups) {
        const int id = ids_.at[i];
        const bool mine = (chain_.at[i] & 0x80000000u) != 0 && id >= 0 && uint(id) < vocabulary_;
        for (uint d = gl_LocalInvocationID.x; d < (mine ? width_ : 0); d += gl_WorkGroupSize.x) {
            const uint at = uint(id) * width_ + d;
            target_.at[at] = sum_chain(i, d) + (ADD ? target_.at[at] : 0.0);
        }
    }
}
