#version 460
// LayerNorm and RMSNorm, gradient of the input: with h = g (offset + weight), n = (x - mean) rstd,
//     dx = rstd (h - mean(h) [LayerNorm] - n mean(h n)) + base
// Layouts: g, x, dx [rows, width], base [rows, width] (perhaps the memory of dx) or address 0, weight [width] or address 0, rstd, mean [rows], all contiguous. NumPy twin: norm_input_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool WEIGHT = true;
layout(constant_id = 3) const bool BASE = false;

layout(push_constant, scalar) uniform Arguments {
    Floats g, x, rstd, mean, weight, base, dx;
    uint rows, width;
    float offset;
    uint zero;                                          // 0, see rows.glsl
};

Floats g_, x_, weight_;
uint width_, own;
float offset_;

// (h, n) of one element; zeros beyond the row.
vec2 terms(const uint start, const uint d, const float centre, const float scale) {
    const uint at = min(d, width_ - 1);
    const float gradient = g_.at[start + at], n = (x_.at[start + at + own] - centre) * scale;
    const float h = WEIGHT ? gradient * (offset_ + weight_.at[at + 2 * own]) : gradient;
    return d < width_ ? vec2(h, n) : vec2(0.0);
}

void main() {
    Floats dx_ = dx, base_ = base, rstd_ = rstd, mean_ = mean;
    const uint rows_ = rows;
    g_ = g;
    x_ = x;
    weight_ = weight;
    width_ = width;
    own = zero;
    offset_ = offset;
    for (uint row = first_row(); row < rows_; row += row_step()) {
        const uint start = row * width_;
        const float centre = LAYER ? mean_.at[row] : 0.0, scale = rstd_.at[row + own];
        vec4 plain = vec4(0.0), product = vec4(0.0);
        for (uint d = LANE; d < width_; d += 4 * LANES) {
            const vec2 a = terms(start, d, centre, scale), b = terms(start, d + LANES, centre, scale);
            const vec2 c = terms(start, d + 2 * LANES, centre, scale), e = terms(start, d + 3 * LANES, centre, scale);
            plain += vec4(a.x, b.x, c.x, e.x);
            product += vec4(a.x * a.y, b.x * b.y, c.x * c.y, e.x * e.y);
        }
        const float mean_h = LAYER ? sum_row(plain) / float(width_) : 0.0, mean_hn = sum_row(product) / float(width_);
        for (uint d = LANE; d < width_; d += LANES) {
            const vec2 hn = terms(start, d, centre, scale);
            const float own_part = scale * (hn.x - mean_h - hn.y * mean_hn);
            dx_.at[start + d + 3 * own] = BASE ? own_part + base_.at[start + d + 4 * own] : own_part;
        }
    }
}
