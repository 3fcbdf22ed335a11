#version 460
// One optimizer step over whole arenas, in PyTorch's order of operations; nothing changes when *gradient_scale is not finite.
//   AdamW: g *= scale; m += (g - m) (1 - beta1); v = beta2 v + (1 - beta2) g g; p = keep p - rate m / (sqrt(v) / root2 + eps)
//   SGD:   g = g scale + decay p; b = momentum b + (1 - dampening) g; p -= rate (b, g + momentum b with Nesterov, or g without momentum)
// Layouts: arenas flat, `count` a multiple of 64; groups[i / 64] selects the pair (keep, rate) or (rate, decay) of block i / 64 in scalars.
// scalars: AdamW 1 - beta1, beta2, 1 - beta2, root2, eps; SGD momentum, 1 - dampening; then the pairs.
// NumPy twins: adamw_reference, sgd_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint RULE = 0;           // 0: AdamW, 1: SGD, 2: SGD with momentum, 3: with Nesterov's
const uint BLOCK = 64;                                 // floats that share an entry of groups
const uint HEAD = RULE == 0 ? 5 : 2;

layout(push_constant, scalar) uniform Arguments {
    Floats parameters, first, second, gradients;
    Uints groups;
    Floats scalars, gradient_scale;
    uint blocks, blocks_each;                          // of all, of a workgroup
};

void adamw(const uint i, const float g, const float keep, const float rate) {
    const float m0 = first.at[i];
    const float m = fma(g - m0, scalars.at[0], m0);
    const float v = fma(scalars.at[2] * g, g, second.at[i] * scalars.at[1]);
    const float update = div_(m, div_(sqrt_(v), scalars.at[3]) + scalars.at[4]);
    first.at[i] = m;
    second.at[i] = v;
    parameters.at[i] = fma(-rate, update, parameters.at[i] * keep);
}

void sgd(const uint i, const float scaled, const float rate, const float decay) {
    const float p = parameters.at[i], g = fma(decay, p, scaled);
    float direction = g;
    if (RULE >= 2) {
        const float b = fma(first.at[i], scalars.at[0], g * scalars.at[1]);
        first.at[i] = b;
        direction = RULE == 3 ? fma(scalars.at[0], b, g) : b;
    }
    parameters.at[i] = fma(-rate, direction, p);
}

void main() {
    const float scale = gradient_scale.at[0];
    if (isnan(scale) || isinf(scale)) return;
    const uint workgroup = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    const uint begin = workgroup * blocks_each * BLOCK, end = min(blocks, (workgroup + 1) * blocks_each) * BLOCK;
    for (uint i = begin + gl_LocalInvocationID.x; i < end; i += gl_WorkGroupSize.x) {
        const uint pair = HEAD + 2 * groups.at[i / BLOCK];
        const float g = gradients.at[i] * scale;
        if (RULE == 0) adamw(i, g, scalars.at[pair], scalars.at[pair + 1]);
        else sgd(i, g, scalars.at[pair], scalars.at[pair + 1]);
    }
}
