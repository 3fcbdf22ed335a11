#version 460
// Gradients of LayerNorm with mixing: formulas and layouts in hierarchos/kernels/norm_mix.py. One workgroup a row.
// NumPy twin: norm_mix_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "group.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool FULL = false;

layout(push_constant, scalar) uniform Arguments {
    Floats x, affine, previous, mix_, dkept, three, two, one, dx, daffine, dprevious, dmix;
    uint width, batch, affine_kind, affine_row, mix_kind, mix_row;
    float bound;
};

void main() {
    Floats x_ = x, affine_ = affine, previous_ = previous, c_ = mix_, dkept_ = dkept, three_ = three, two_ = two, one_ = one;
    Floats dx_ = dx, daffine_ = daffine, dprevious_ = dprevious, dmix_ = dmix;
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
    float along = 0.0, across = 0.0;
    for (uint d = lane; d < width; d += lanes) {
        const uint at = start + d, a = b * affine_row + d;
        const float unit = (x_.at[at] - centre) * scale, gamma = affine_.at[a], n = unit * gamma + affine_.at[affine_kind + a];
        const float back = previous_.at[at] - n;
        float dn = abs(n) <= limit ? dkept_.at[at] : 0.0, dp = 0.0;
        for (uint g = 0; g < many; g++) {
            const float c = c_.at[g * mix_kind + b * mix_row + d];
            const float dm = !FULL || g == 5 ? one_.at[at] : g < 3 ? three_.at[g * plane + at] : two_.at[(g - 3) * plane + at];
            dn = fma(dm, 1.0 - c, dn);
            dp = fma(dm, c, dp);
            dmix_.at[g * plane + at] = dm * back;
        }
        dprevious_.at[at] = dp;
        daffine_.at[at] = dn * unit;
        daffine_.at[plane + at] = dn;
        along += dn * gamma;
        across = fma(dn * gamma, unit, across);
    }
    const float mean_h = div_(group_sum(along), float(width)), mean_hn = div_(group_sum(across), float(width));
    for (uint d = lane; d < width; d += lanes) {
        const uint at = start + d;
        const float unit = (x_.at[at] - centre) * scale, h = daffine_.at[plane + at] * affine_.at[b * affine_row + d];
        dx_.at[at] = scale * (h - mean_h - unit * mean_hn);
    }
}
