#version 460
// Links the positions of equal ids: chain[i] = next j > i with ids[j] == ids[i], or `count` where there is none; bit 31 is set where i is the
// first position of its id. Each position searches both ways and stops at the first hit, so frequent ids are quick. With SPREAD a
// subgroup searches for each position, its lanes side by side (GPUs); else an invocation does.
// Layouts: ids i32 [count], chain u32 [count]. Limits: count < 2^31. NumPy twin: chain_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool SPREAD = false;
layout(push_constant, scalar) uniform Arguments {
    Ints ids;
    Uints chain;
    uint count;
};
const uint RUN = 4096;                                  // inner loops stay far below the iteration limit of software drivers

// The first j in first .. stop - 1 whose id is `id`, or `stop`; the same for all lanes.
uint found_by_all(Ints ids_, uint first, uint stop, int id) {
    uint hit = stop;
    for (uint start = first; start < stop && hit == stop; start += 4 * gl_SubgroupSize) {
        uint nearest = stop;
        for (int part = 3; part >= 0; part--) {
            const uint j = start + part * gl_SubgroupSize + gl_SubgroupInvocationID;
            if (ids_.at[min(j, stop - 1)] == id && j < stop) nearest = j;
        }
        hit = subgroupMin(nearest);
    }
    return hit;
}

void search_together() {
    const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    const uint all = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumSubgroups;
    for (uint i = group * gl_NumSubgroups + gl_SubgroupID; i < count; i += all) {
        const int id = ids.at[i];
        const uint next = found_by_all(ids, i + 1, count, id);
        const bool first = i == 0 || found_by_all(ids, 0, i, id) == i;
        if (subgroupElect()) chain.at[i] = next | (first ? 0x80000000u : 0);
    }
}

void main() {
    if (SPREAD) {
        search_together();
        return;
    }
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
