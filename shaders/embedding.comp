#version 460
// Row lookup: target[i] = table[ids[i]]; a row of NaN for an id outside the table, so that a foreign read never happens silently.
// Layouts: ids i32 [count], table [vocabulary, width], target [count, width], contiguous. NumPy twin: embedding_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Arguments {
    Ints ids;
    Uints table, target;                                // 32-bit words: copied, never computed with
    uint count, vocabulary, width;
};

void main() {
    Ints ids_ = ids;                                    // copies from outside the loops: see rows.glsl
    Uints table_ = table, target_ = target;
    const uint width_ = width;
    const uint groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    for (uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; i < count; i += groups) {
        const int id = ids_.at[i];
        const bool known = id >= 0 && uint(id) < vocabulary;
        const uint source = known ? uint(id) * width_ : 0;
        for (uint d = gl_LocalInvocationID.x; d < width_; d += gl_WorkGroupSize.x)
            target_.at[i * width_ + d] = known ? table_.at[source + d] : 0x7fc00000u;
    }
}
