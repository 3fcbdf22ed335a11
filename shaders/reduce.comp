#version 460
// Sums or maxima over some axes of a strided tensor:  target[split][o] = op over r in the split's range of x[kept position(o), reduced
// position(r)]. One subgroup for each output (ACROSS: neighbouring lanes read neighbouring r) or one lane for each output. Sums run over
// blocks of 32 first, then over blocks, always in the same order; EXACT, on GPUs, which wait for memory here: over blocks of 4, and the blocks
// are added to a compensated sum. A long reduction is split; a second launch adds the parts.
// Layouts: x any strides (axes outer first); target contiguous [splits, outputs]. Words are f32, i32 or u32 by DTYPE.
// Limits: 4 kept and 4 reduced axes after merging; fewer than 2^31 elements. NumPy twin: reduce_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool MAXIMUM = false;
layout(constant_id = 2) const uint DTYPE = 0;          // 0: f32, 1: i32, 2: u32
layout(constant_id = 3) const uint KEPT = 1;           // axes
layout(constant_id = 4) const uint REDUCED = 1;
layout(constant_id = 5) const bool ACROSS = false;
layout(constant_id = 6) const bool EXACT = false;       // for sums of f32
const uint BLOCK = EXACT ? 4 : 32;

layout(push_constant, scalar) uniform Arguments {
    Uints x, target;
    uint outputs, splits, count, chunk;                // elements of a reduction, and of a split of it
    uvec3 kept_extents;                                // of the inner KEPT - 1 axes, right-aligned
    uvec4 kept_strides;                                // right-aligned
    uvec3 reduced_extents;
    uvec4 reduced_strides;
};

Uints x_;                                              // copies from outside the loops: see rows.glsl
uvec4 steps;

uint identity() {
    if (!MAXIMUM) return 0;
    return DTYPE == 0 ? 0xff800000u : DTYPE == 1 ? 0x80000000u : 0;
}

uint combine(const uint a, const uint b) {
    if (DTYPE == 0) {
        const float u = uintBitsToFloat(a), v = uintBitsToFloat(b);
        return MAXIMUM ? (u > v || isnan(u) ? a : b) : floatBitsToUint(u + v);
    }
    if (!MAXIMUM) return a + b;
    return DTYPE == 1 ? uint(max(int(a), int(b))) : max(a, b);
}

uint combine_lanes(const uint a) {
    if (DTYPE == 0) {
        const float u = uintBitsToFloat(a);
        if (!MAXIMUM) return floatBitsToUint(subgroupAdd(u));
        const bool bad = subgroupMax(isnan(u) ? 1 : 0) == 1;
        return bad ? 0x7fc00000u : floatBitsToUint(subgroupMax(u));
    }
    if (!MAXIMUM) return subgroupAdd(a);
    return DTYPE == 1 ? uint(subgroupMax(int(a))) : subgroupMax(a);
}

uint place(uint index, const uint rank, const uvec3 extents, const uvec4 strides) {
    uint at = 0;
    for (uint axis = 3; axis > 4 - rank; axis--) {
        const uint quotient = index / extents[axis - 1];
        at += (index - quotient * extents[axis - 1]) * strides[axis];
        index = quotient;
    }
    return at + index * strides[4 - rank];
}

// Elements start, start + step, ... below stop of one output.
uint accumulate(const uint base, const uint start, const uint stop, const uint step) {
    uint total = identity();
    float lost = 0.0;
    for (uint block = start; block < stop; block += BLOCK * step) {
        uint part = identity();
        const uint end = min(block + BLOCK * step, stop);
        for (uint r = block; r < end; r += step) {
            part = combine(part, x_.at[base + (REDUCED == 1 ? r * steps[3] : place(r, REDUCED, reduced_extents, steps))]);
        }
        if (EXACT) {
            float sum = uintBitsToFloat(total);
            add_exactly(sum, lost, uintBitsToFloat(part));
            if (isinf(sum)) lost = 0.0;
            total = floatBitsToUint(sum);
        } else total = combine(total, part);
    }
    return total;
}

void main() {
    Uints target_ = target;
    x_ = x;
    steps = reduced_strides;
    const uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, groups = gl_NumWorkGroups.x * gl_NumWorkGroups.y;
    const uint step = ACROSS ? gl_NumSubgroups : gl_WorkGroupSize.x;
    const uint lane = ACROSS ? gl_SubgroupInvocationID : 0, lanes = ACROSS ? gl_SubgroupSize : 1;
    for (uint item = group * step + (ACROSS ? gl_SubgroupID : gl_LocalInvocationID.x); item < outputs * splits; item += groups * step) {
        const uint split = item / outputs, first = split * chunk;
        const uint base = place(item - split * outputs, KEPT, kept_extents, kept_strides);
        uint value = accumulate(base, first + lane, min(first + chunk, count), lanes);
        if (ACROSS) value = combine_lanes(value);
        if (lane == 0) target_.at[item] = value;
    }
}
