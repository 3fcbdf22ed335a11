#version 460
// LayerNorm and RMSNorm over the last axis, forward: y = (x - mean) * rstd * (offset + weight) + bias, rstd = 1 / sqrt(mean((x - mean)^2) + eps);
// RMSNorm has mean = 0. Two passes for the moments (no cancellation), one for y.
// Layouts: x, y [rows, width], weight, bias [width] or address 0, rstd, mean [rows], all contiguous. NumPy twin: norm_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool WEIGHT = true;
layout(constant_id = 3) const bool BIAS = false;

layout(push_constant, scalar) uniform Arguments {
    Floats x, weight, bias, y, rstd, mean;
    uint rows, width;
    float eps, offset;
};

float at(const uint base, const uint d) {
    return d < width ? x.at[base + d] : 0.0;
}

float deviation(const uint base, const uint d, const float centre) {
    return d < width ? x.at[base + d] - centre : 0.0;
}

void main() {
    for (uint row = first_row(); row < rows; row += row_step()) {
        const uint base = row * width;
        float centre = 0.0;
        if (LAYER) {
            vec4 sums = vec4(0.0);
            for (uint d = LANE; d < width; d += 4 * LANES)
                sums += vec4(at(base, d), at(base, d + LANES), at(base, d + 2 * LANES), at(base, d + 3 * LANES));
            centre = sum_row(sums) / float(width);
        }
        vec4 squares = vec4(0.0);
        for (uint d = LANE; d < width; d += 4 * LANES) {
            const vec4 v = vec4(deviation(base, d, centre), deviation(base, d + LANES, centre), deviation(base, d + 2 * LANES, centre),
                                deviation(base, d + 3 * LANES, centre));
            squares += v * v;
        }
        const float scale = rsqrt_(div_(sum_row(squares), float(width)) + eps);
        for (uint d = LANE; d < width; d += LANES) {
            float value = (x.at[base + d] - centre) * scale;
            if (WEIGHT) value *= offset + weight.at[d];
            if (BIAS) value += bias.at[d];
            y.at[base + d] = value;
        }
        if (LANE == 0) {
            rstd.at[row] = scale;
            if (LAYER) mean.at[row] = centre;
        }
    }
}
