#version 460
// Straight-through gradient of retrieval: dscore[b, index_j] = scale <dvalue_j, value_j>; the rest of dscore is 0 already.
// Layouts: index i32 [B,K], value, dvalue [B,K,V], dscore [B,S]. One workgroup an entry. NumPy twin: memory_read_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Ints index;
    Floats value, dvalue, dscore;
    uint slots, count, width;
    float scale;
};

shared float part_[256];

void main() {
    Floats value_ = value, dvalue_ = dvalue;
    const uint lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, at = gl_WorkGroupID.y * count + gl_WorkGroupID.x;
    float sum = 0.0;
    for (uint d = lane; d < width; d += lanes) sum = fma(value_.at[at * width + d], dvalue_.at[at * width + d], sum);
    part_[lane] = sum;
    barrier();
    if (lane == 0) {
        float total = 0.0;
        for (uint i = 0; i < lanes; i++) total += part_[i];
        const int slot = index.at[at];
        if (slot >= 0) dscore.at[gl_WorkGroupID.y * slots + uint(slot)] = scale * total;
    }
}
