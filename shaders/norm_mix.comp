#version 460
// LayerNorm of a row, kept within +-bound, and its mixtures with the previous row: formulas and layouts in hierarchos/kernels/norm_mix.py.
// FULL: six mixtures in three outputs (3, 2, 1), otherwise one in the last. One workgroup a row. NumPy twin: norm_mix_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "group.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool FULL = false;

layout(push_constant, scalar) uniform Arguments {
    Floats x, affine, previous, mix_, kept, three, two, one;
    uint width, batch, affine_kind, affine_row, mix_kind, mix_row;
    float bound;
};

void main() {
    Floats x_ = x, affine_ = affine, previous_ = previous, c_ = mix_, kept_ = kept, three_ = three, two_ = two, one_ = one;
    const uint b = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x, lanes = gl_WorkGroupSize.x, start = b * width, plane = batch * width;
    const uint many = FULL ? 6 : 1;
    float sum = 0.0;
    for (uint d = lane; d < width; d += lanes) sum += x_.at[start + d];
    const float centre = div_(group_sum(sum), float(width));
    float squares = 0.0;
    for (uint d = lane; d < width; d += lanes) {
        const float v = x_.at[start + d] - centre;
        squares = fma(v, v, squares);
    }
    const float scale = rsqrt_(div_(group_sum(squares), float(width)) + 1e-5), limit = bound;
    for (uint d = lane; d < width; d += lanes) {
        const uint at = start + d, a = b * affine_row + d;
        const float n = (x_.at[at] - centre) * scale * affine_.at[a] + affine_.at[affine_kind + a];
        kept_.at[at] = abs(n) <= 3.4028234663852886e38 ? min(max(n, -limit), limit) : n;
        const float back = previous_.at[at] - n;
        for (uint g = 0; g < many; g++) {
            const float m = n + back * c_.at[g * mix_kind + b * mix_row + d];
            if (!FULL || g == 5) one_.at[at] = m;
            else if (g < 3) three_.at[g * plane + at] = m;
            else two_.at[(g - 3) * plane + at] = m;
        }
    }
}
