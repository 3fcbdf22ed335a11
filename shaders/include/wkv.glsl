// One step of an RWKV-7 matrix state, what forward and gradient share. Formulas and layouts: hierarchos/kernels/wkv.py.
// A workgroup has the N channels of one head of one row, one an invocation; vectors of the head lie in shared memory. It is made of whole
// subgroups (Mesa 22.3 sums a partial one wrongly): invocations beyond N repeat the last channel, count in no sum and write nothing.

#include "group.glsl"

layout(local_size_x_id = 0) in;
const uint MOST = 128;                                  // channels of a head

shared float shared_[9][MOST];
#define KAPPA 0
#define REMOVE 1
#define DEC 2
#define KEY 3
#define RECEIVE 4
#define VALUE 5
#define Z 6
#define DTAU 7
#define DZ 8

uint n_, i_;                                            // channels of a head; this invocation's
bool on_;                                               // whether it has one of its own

void begin_head(const uint n) {
    n_ = n;
    i_ = min(gl_LocalInvocationID.x, n - 1);
    on_ = gl_LocalInvocationID.x < n;
}

float head_sum(const float x) {
    return group_sum(on_ ? x : 0.0);
}


float finite_limit(const float x, const float bound) {
    return abs(x) <= 3.4028234663852886e38 ? min(max(x, -bound), bound) : x;
}

struct Channel {
    float r, k, v, g, a, decay_in, ww, rate, dec, p, norm, kappa, key, k_k, k_a, r_k, lnw, lnb;
};

// The channel's numbers; puts the head's vectors into shared memory.
Channel channel(Floats rkv, Floats wa, Floats g, Floats rows, const uint width, const uint batch, const uint kind, const uint row_stride) {
    const uint j = i_, at = gl_WorkGroupID.x * n_ + j, b = gl_WorkGroupID.y;
    const uint own = b * width + at, plane = batch * width, row = b * row_stride + at;
    Channel c;
    c.r = rkv.at[own];
    c.k = rkv.at[plane + own];
    c.v = rkv.at[2 * plane + own];
    c.g = g.at[own];
    c.decay_in = rows.at[row] + wa.at[own];
    c.a = sigmoid_(rows.at[kind + row] + wa.at[plane + own]);
    c.k_k = rows.at[2 * kind + row];
    c.k_a = rows.at[3 * kind + row];
    c.r_k = rows.at[4 * kind + row];
    c.lnw = rows.at[5 * kind + row];
    c.lnb = rows.at[6 * kind + row];
    const float turned = -c.decay_in;
    const float softplus = turned > 20.0 ? turned : max(turned, 0.0) + log_(1.0 + exp_(-abs(turned)));
    c.ww = -softplus - 0.5;
    c.rate = exp_(min(max(c.ww, -60.0), 30.0));
    c.dec = exp_(-c.rate);
    c.p = c.k * c.k_k;
    c.norm = max(sqrt_(head_sum(c.p * c.p)), 1e-12);
    c.kappa = div_(c.p, c.norm);
    c.key = c.k * (1.0 + (c.a - 1.0) * c.k_a);
    shared_[KAPPA][j] = c.kappa;
    shared_[REMOVE][j] = c.kappa * c.a;
    shared_[DEC][j] = c.dec;
    shared_[KEY][j] = c.key;
    shared_[RECEIVE][j] = c.r;
    shared_[VALUE][j] = c.v;
    barrier();
    return c;
}

// The state's row of this value index after the step.
float updated(const float before, const uint j, const float z, const float v) {
    return before * shared_[DEC][j] + z * shared_[REMOVE][j] + v * shared_[KEY][j];
}
