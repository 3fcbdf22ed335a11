#version 460
// target[ids[n]][d] (+)= sum over the chain n, next[n], next[next[n]] ... of gradient[.][d], for each n that is the first of its id.
// Layouts: gradient [N, D], ids, next, first [N], target [V, D]. Rows that no id names are left alone. Ids outside [0, V) are skipped.
// One workgroup takes one position. NumPy twin: EmbeddingGradient.reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool ADD = false;        // to what target holds

layout(push_constant, scalar) uniform Arguments {
    Floats gradient;
    Uints ids, next, first;
    Floats target;
    uint rows, vocabulary, width;
};

void main() {
    const uint n = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (n >= rows || first.at[n] == 0) return;
    const uint id = ids.at[n];
    if (id >= vocabulary) return;
    for (uint d = gl_LocalInvocationID.x; d < width; d += gl_WorkGroupSize.x) {
        float sum = 0.0;
        for (uint at = n; at < rows; at = next.at[at]) sum += gradient.at[at * width + d];
        target.at[id * width + d] = ADD ? target.at[id * width + d] + sum : sum;
    }
}
