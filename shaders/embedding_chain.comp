#version 460
// Links the positions of equal ids: chain[i] = next j > i with ids[j] == ids[i], or `count` where there is none; bit 31 is set where i is the
// first position of its id. Each position searches both ways and stops at the first hit, so frequent ids are quick.
// Layouts: ids i32 [count], chain u32 [count]. Limits: count < 2^31. NumPy twin: chain_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Arguments {
    Ints ids;
    Uints chain;
    uint count;
};
const uint RUN = 4096;                                  // inner loops stay far below the iteration limit of software drivers

void main() {
    const uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= count) return;
    const int id = ids.at[i];
    uint next = count;
    for (uint start = i + 1; start < count && next == count; start += RUN)
        for (uint j = start; j < min(start + RUN, count); j++)
            if (ids.at[j] == id) { next = j; break; }
    bool first = true;
    for (uint start = 0; start < i && first; start += RUN)
        for (uint j = start; j < min(start + RUN, i); j++)
            if (ids.at[j] == id) { first = false; break; }
    chain.at[i] = next | (first ? 0x80000000u : 0);
}
