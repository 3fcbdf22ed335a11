#version 460
// One step of an RWKV-7 matrix state: reads it, decays it, replaces what the key finds, writes it (and the value) limited to +-bound.
// Formulas and layouts: hierarchos/kernels/wkv.py. Limits: heads of at most 128 channels. NumPy twin: wkv_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "wkv.glsl"

layout(push_constant, scalar) uniform Arguments {
    Floats rkv, wa, g, rows, state, y, after, kept;
    uint width, batch, kind, row_stride, head;
    float bound;
};

void main() {
    begin_head(head);
    Floats state_ = state, after_ = after, y_ = y;
    const uint i = i_, own = gl_WorkGroupID.y * width + gl_WorkGroupID.x * n_ + i, line = own * n_;
    const Channel c = channel(rkv, wa, g, rows, width, batch, kind, row_stride);
    const float limit = bound;
    float z = 0.0;
    for (uint j = 0; j < n_; j++) z -= state_.at[line + j] * shared_[KAPPA][j];
    float tau = 0.0;
    for (uint j = 0; j < n_; j++) {
        const float now = updated(state_.at[line + j], j, z, c.v);
        tau = fma(now, shared_[RECEIVE][j], tau);
        if (on_) after_.at[line + j] = finite_limit(now, limit);
    }
    const float centred = tau - div_(head_sum(tau), float(n_));
    const float scale = rsqrt_(div_(head_sum(centred * centred), float(n_)) + 64e-5);
    const float bonus = head_sum(c.r * c.key * c.r_k);
    if (!on_) return;
    kept.at[own] = finite_limit(c.v, limit);
    y_.at[own] = (centred * scale * c.lnw + c.lnb + bonus * c.v) * c.g;
}
