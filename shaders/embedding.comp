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
    const uint groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    for (uint i = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; i < count; i += groups) {
        const int id = ids.at[i];
        const bool known = id >= 0 && uint(id) < vocabulary;
        const uint source = known ? uint(id) * width : 0;
        for (uint d = gl_LocalInvocationID.x; d < width; d += gl_WorkGroupSize.x)
            target.at[i * width + d] = known ? table.at[source + d] : 0x7fc00000u;
    }
}
