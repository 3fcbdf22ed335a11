// P(X) [M,K] of include/gemv.glsl written to C [M,K]: where gemv_fused's shared memory does not hold it, and on CPU drivers.
//
// One subgroup a row (workgroup x), lanes stride over K; the order of sums depends on the subgroup size alone.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#include "numerics.glsl"
#include "activation.glsl"
#include "gemv.glsl"

void main() {
    const uint lane = gl_SubgroupInvocationID, width = gl_SubgroupSize, length = k, row = gl_WorkGroupID.x, base = row * ldx, to = row * ldc;
    const uint64_t from = x, target = c;
    float mean = 0.0, rstd = 1.0;
    if (PROLOGUE == 2) {
        float sum = 0.0;
        for (uint i = lane; i < length; i += width) sum += Floats(from).at[base + i];
        mean = subgroupAdd(sum) / float(length);
    }
    if (PROLOGUE == 1 || PROLOGUE == 2) {
        float sum = 0.0;
        for (uint i = lane; i < length; i += width) {
            const float d = Floats(from).at[base + i] - mean;
            sum = fma(d, d, sum);
        }
        rstd = rsqrt_(subgroupAdd(sum) / float(length) + eps);
    }
    if (gl_SubgroupID == 0)
        for (uint i = lane; i < length; i += width) Floats(target).at[to + i] = prologue(Floats(from).at[base + i], row, i, mean, rstd);
}
