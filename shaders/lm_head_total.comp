// loss = sum over rows of token_weights[i] * nll[i]; one workgroup, compensated sums; WIDE: see combine.glsl. NumPy twin: hierarchos.kernels.lm_head.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool WIDE = false;

#include "combine.glsl"

layout(push_constant, scalar) uniform Arguments {
    Floats token_weights, nll, loss;
    uint rows;
};

void main() {
    float sum = 0.0, lost = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < rows; i += gl_WorkGroupSize.x)
        add_exactly(sum, lost, token_weights.at[i] * nll.at[i]);
    float total = combine(sum, false);
    if (gl_LocalInvocationID.x == 0) loss.at[0] = total;
}
