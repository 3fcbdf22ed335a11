#version 460
// One optimizer step over whole arenas; nothing changes when *gradient_scale is not finite.
//   AdamW: g *= scale; m += (g - m) (1 - beta1); v = beta2 v + (1 - beta2) g g; p -= fade p + rate m / (sqrt(v) / root2 + eps)
//          With fade = learning rate * decay a step rounds p once; PyTorch's (1 - fade) p is off by the rounding of 1 - fade in every step.
//          CARRIED: what that rounding leaves off is kept for the next step where the block has a place in `carry`, which starts at 0:
//          p + carry is then p as if it were never rounded (Kahan 1965; the error of a sum by Knuth's two-sum).
//   SGD:   g = g scale + decay p; b = momentum b + (1 - dampening) g; p -= rate (b, g + momentum b with Nesterov, or g without momentum)
// Layouts: arenas flat, `count` a multiple of 64; groups[i / 64] % 256 selects the pair (fade, rate) or (rate, decay) of block i / 64 in scalars,
// groups[i / 64] / 256 is 1 + the number of its block in carry, or 0.
// scalars: AdamW 1 - beta1, beta2, 1 - beta2, root2, eps; SGD momentum, 1 - dampening; then the pairs.
// NumPy twins: adamw_reference, sgd_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint RULE = 0;           // 0: AdamW, 1: SGD, 2: SGD with momentum, 3: with Nesterov's
layout(constant_id = 2) const bool CARRIED = false;    // of AdamW
const uint BLOCK = 64;                                 // floats that share an entry of groups
const uint HEAD = RULE == 0 ? 5 : 2;

layout(push_constant, scalar) uniform Arguments {
    Floats parameters, first, second, carry, gradients;
    Uints groups;
    Floats scalars, gradient_scale;
    uint blocks, blocks_each;                          // of all, of a workgroup
    uint zero;                                         // 0
};

// Fast memory access on Mesa 22.3: see include/rows.glsl.
Floats p_, m_, v_, c_, g_;
uint own;
float a0, a1, a2, a3, a4;

void adamw(const uint i, const float g, const float fade, const float rate, const uint kept) {
    const float m0 = m_.at[i + own * 2];
    const float m = fma(g - m0, a0, m0);
    const float v = fma(a2 * g, g, v_.at[i + own * 3] * a1);
    const float update = div_(m, div_(sqrt_(v), a3) + a4);
    const float before = p_.at[i + own * 4];
    const bool carries = CARRIED && kept != 0;
    const uint place = (kept - 1) * BLOCK + i % BLOCK;
    float left = 0.0;
    if (carries) left = c_.at[place + own * 8];
    precise const float change = left - fma(rate, update, fade * before), p = before + change;
    if (carries) {
        precise const float moved = p - before, rest = (before - (p - moved)) + (change - moved);
        c_.at[place + own * 9] = rest;
    }
    m_.at[i + own * 5] = m;
    v_.at[i + own * 6] = v;
    p_.at[i + own * 7] = p;
}

void sgd(const uint i, const float scaled, const float rate, const float decay) {
    const float p = p_.at[i + own * 4], g = fma(decay, p, scaled);
    float direction = g;
    if (RULE >= 2) {
        const float b = fma(m_.at[i + own * 2], a0, g * a1);
        m_.at[i + own * 5] = b;
        direction = RULE == 3 ? fma(a0, b, g) : b;
    }
    p_.at[i + own * 7] = fma(-rate, direction, p);
}

void main() {
    const float scale = gradient_scale.at[0];
    Floats pairs = scalars;
    Uints block_groups = groups;
    p_ = parameters;
    m_ = first;
    v_ = second;
    c_ = carry;
    g_ = gradients;
    own = zero;
    a0 = pairs.at[0];
    a1 = pairs.at[1];
    if (RULE == 0) {
        a2 = pairs.at[2];
        a3 = pairs.at[3];
        a4 = pairs.at[4];
    }
    const uint workgroup = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, lanes = gl_WorkGroupSize.x;
    const uint begin = workgroup * blocks_each * BLOCK;
    const uint end = isnan(scale) || isinf(scale) ? 0 : min(blocks, (workgroup + 1) * blocks_each) * BLOCK;
    for (uint block = begin; block < end; block += max(BLOCK, lanes)) {
        const uint code = block_groups.at[min(block + gl_LocalInvocationID.x, end - 1) / BLOCK];
        const uint pair = HEAD + 2 * (code % 256);
        const float one = pairs.at[pair], two = pairs.at[pair + 1];
        for (uint i = block + gl_LocalInvocationID.x; i < min(block + max(BLOCK, lanes), end); i += lanes) {
            const float g = g_.at[i + own] * scale;
            if (RULE == 0) adamw(i, g, one, two, code / 256);
            else sgd(i, g, one, two);
        }
    }
}
