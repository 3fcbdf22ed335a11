#version 460
// Gradients of one step of an RWKV-7 matrix state; the step itself is computed again.
// Formulas and layouts: hierarchos/kernels/wkv.py. Limits: heads of at most 128 channels. NumPy twin: wkv_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "wkv.glsl"

layout(push_constant, scalar) uniform Arguments {
    Floats rkv, wa, g, rows, state, dy, dafter, drkv, dwa, dg, drows, dstate;
    uint width, batch, kind, row_stride, head;
    float bound;
};

void main() {
    begin_head(head);
    Floats state_ = state, dafter_ = dafter, dstate_ = dstate, drows_ = drows, drkv_ = drkv, dwa_ = dwa;
    const uint i = i_, own = gl_WorkGroupID.y * width + gl_WorkGroupID.x * n_ + i, line = own * n_;
    const uint first = (own - i) * n_, plane = batch * width;
    const Channel c = channel(rkv, wa, g, rows, width, batch, kind, row_stride);
    const float limit = bound, slope = dy.at[own];
    float z = 0.0;
    for (uint j = 0; j < n_; j++) z -= state_.at[line + j] * shared_[KAPPA][j];
    float tau = 0.0;
    for (uint j = 0; j < n_; j++) tau = fma(updated(state_.at[line + j], j, z, c.v), shared_[RECEIVE][j], tau);
    const float centred = tau - div_(head_sum(tau), float(n_));
    const float scale = rsqrt_(div_(head_sum(centred * centred), float(n_)) + 64e-5);
    const float n = centred * scale, bonus = head_sum(c.r * c.key * c.r_k);
    const float dt = slope * c.g, h = dt * c.lnw;
    const float mean_h = div_(head_sum(h), float(n_)), mean_hn = div_(head_sum(h * n), float(n_));
    const float dtau = scale * (h - mean_h - n * mean_hn), dbonus = head_sum(dt * c.v);
    if (on_) dg.at[own] = slope * (n * c.lnw + c.lnb + bonus * c.v);

    float dz = 0.0, dv = dt * bonus;                    // this invocation's row: value index i
    for (uint j = 0; j < n_; j++) {
        const float now = updated(state_.at[line + j], j, z, c.v);
        const float kept = abs(now) <= limit ? dafter_.at[line + j] : 0.0;
        const float d = fma(dtau, shared_[RECEIVE][j], kept);
        dz = fma(d, shared_[REMOVE][j], dz);
        dv = fma(d, shared_[KEY][j], dv);
    }
    for (uint j = 0; j < n_; j++) {
        const float now = updated(state_.at[line + j], j, z, c.v);
        const float kept = abs(now) <= limit ? dafter_.at[line + j] : 0.0;
        if (on_) dstate_.at[line + j] = fma(dtau, shared_[RECEIVE][j], kept) * shared_[DEC][j] - dz * shared_[KAPPA][j];
    }
    shared_[Z][i] = z;
    shared_[DTAU][i] = dtau;
    shared_[DZ][i] = dz;
    barrier();

    float dr = dbonus * c.key * c.r_k, dkey = dbonus * c.r * c.r_k, dremove = 0.0, ddec = 0.0, dkappa = 0.0;    // this one's column: key index i
    for (uint row = 0; row < n_; row++) {
        const float before = state_.at[first + row * n_ + i];
        const float now = updated(before, i, shared_[Z][row], shared_[VALUE][row]);
        const float kept = abs(now) <= limit ? dafter_.at[first + row * n_ + i] : 0.0;
        const float d = fma(shared_[DTAU][row], c.r, kept);
        dr = fma(shared_[DTAU][row], now, dr);
        dkey = fma(d, shared_[VALUE][row], dkey);
        dremove = fma(d, shared_[Z][row], dremove);
        ddec = fma(d, before, ddec);
        dkappa = fma(-shared_[DZ][row], before, dkappa);
    }
    dkappa = fma(dremove, c.a, dkappa);
    const float da = dremove * c.kappa + dkey * c.k * c.k_a;
    const float along = head_sum(c.kappa * dkappa);
    const float dp = div_(c.norm > 1e-12 ? dkappa - c.kappa * along : dkappa, c.norm);
    const float inside = c.ww >= -60.0 && c.ww <= 30.0 ? -c.dec * ddec * c.rate : 0.0;
    const float dw = inside * (-c.decay_in > 20.0 ? 1.0 : sigmoid_(-c.decay_in)), da0 = da * c.a * (1.0 - c.a);
    if (!on_) return;
    drkv_.at[own] = dr;
    drkv_.at[plane + own] = dkey * (1.0 + (c.a - 1.0) * c.k_a) + dp * c.k_k;
    drkv_.at[2 * plane + own] = dv;
    dwa_.at[own] = dw;
    dwa_.at[plane + own] = da0;
    drows_.at[own] = dw;
    drows_.at[plane + own] = da0;
    drows_.at[2 * plane + own] = dp * c.k;
    drows_.at[3 * plane + own] = dkey * c.k * (c.a - 1.0);
    drows_.at[4 * plane + own] = dbonus * c.r * c.key;
    drows_.at[5 * plane + own] = dt * n;
    drows_.at[6 * plane + own] = dt;
}
