#version 460
// LayerNorm and RMSNorm over the last axis, forward: y = (x - mean) * rstd * (offset + weight) + bias, rstd = 1 / sqrt(mean((x - mean)^2) + eps);
// RMSNorm has mean = 0. Two passes for the moments (no cancellation), one for y. EXACT, on GPUs, which wait for memory here: beside mean and
// rstd only y is rounded.
// Layouts: x, y [rows, width], weight, bias [width] or address 0, rstd, mean [rows], all contiguous. NumPy twin: norm_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool WEIGHT = true;
layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool EXACT = false;

layout(push_constant, scalar) uniform Arguments {
    Floats x, weight, bias, y, rstd, mean;
    uint rows, width;
    float eps, offset;
    uint zero;                                          // 0, see rows.glsl
};

Floats x_;
uint width_;

// x - centre, or 0 beyond the row.
float deviation(const uint base, const uint d, const float centre) {
    const float v = x_.at[base + min(d, width_ - 1)] - centre;
    return d < width_ ? v : 0.0;
}

vec4 deviations(const uint base, const uint d, const float centre) {
    return vec4(deviation(base, d, centre), deviation(base, d + LANES, centre), deviation(base, d + 2 * LANES, centre),
                deviation(base, d + 3 * LANES, centre));
}

// (x - centre) scale factor + added
float scaled_exactly(const float x, const float centre, const float scale, const float factor, const float added) {
    float rest;
    const float v = difference(x, centre, rest);
    precise const float both = scale * factor;
    precise const float lost = fma(scale, factor, -both);
    return fma(v, both, fma(v, lost, fma(rest, both, added)));
}

void main() {
    Floats weight_ = weight, bias_ = bias, y_ = y, rstd_ = rstd, mean_ = mean;
    const uint rows_ = rows, own = zero;
    const float eps_ = eps, offset_ = offset;
    x_ = x;
    width_ = width;
    for (uint row = first_row(); row < rows_; row += row_step()) {
        const uint base = row * width_;
        float centre = 0.0;
        if (LAYER) {
            vec4 sums = vec4(0.0);
            for (uint d = LANE; d < width_; d += 4 * LANES) sums += deviations(base, d, 0.0);
            centre = sum_row(sums) / float(width_);
        }
        vec4 squares = vec4(0.0);
        for (uint d = LANE; d < width_; d += 4 * LANES) {
            const vec4 v = deviations(base, d, centre);
            squares += v * v;
        }
        const float scale = rsqrt_exact_(div_(sum_row(squares), float(width_)) + eps_);
        for (uint d = LANE; d < width_; d += LANES) {
            const float factor = WEIGHT ? offset_ + weight_.at[d + own] : 1.0, added = BIAS ? bias_.at[d + 2 * own] : 0.0;
            float value;
            if (EXACT) value = scaled_exactly(x_.at[base + d], centre, scale, factor, added);
            else {
                value = (x_.at[base + d] - centre) * scale;
                if (WEIGHT) value *= factor;
                if (BIAS) value += added;
            }
            y_.at[base + d + own] = value;
        }
        if (LANE == 0) {
            rstd_.at[row] = scale;
            if (LAYER) mean_.at[row + own] = centre;
        }
    }
}
