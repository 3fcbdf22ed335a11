#version 460
// target[n][d] = table[ids[n]][d]; NaN where the id is not a row of the table.
// Layouts: ids [N], table [V, D], target [N, D], all contiguous. One workgroup takes `rows_each` rows. NumPy twin: Embedding.reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Uints ids, table, target;
    uint rows, rows_each, vocabulary, width;
};

void main() {
    const uint workgroup = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    const uint end = min(rows, (workgroup + 1) * rows_each);
    for (uint row = workgroup * rows_each; row < end; row++) {
        const uint id = ids.at[row];
        const bool known = id < vocabulary;
        for (uint d = gl_LocalInvocationID.x; d < width; d += gl_WorkGroupSize.x)
            target.at[row * width + d] = known ? table.at[id * width + d] : 0x7fc00000u;
    }
}
