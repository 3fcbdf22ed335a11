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
    Ints ids_ = ids;                                    // see rows.glsl
    const uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x, end = count;
    const int id = ids_.at[min(i, end - 1)];
    uint next = end;
    for (uint start = i + 1; start < end && next == end; start += RUN)
        for (uint j = start; j < min(start + RUN, end) && next == end; j++)
            if (ids_.at[j] == id) next = j;
    bool first = true;
    for (uint start = 0; start < min(i, end) && first; start += RUN)
        for (uint j = start; j < min(start + RUN, i) && first; j++)
            if (ids_.at[j] == id) first = false;
    if (i < end) chain.at[i] = next | (first ? 0x80000000u : 0);
}
