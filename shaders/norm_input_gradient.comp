#version 460
// LayerNorm and RMSNorm, gradient of the input: with h = g (offset + weight), n = (x - mean) rstd,
//     dx = rstd (h - mean(h) [LayerNorm] - n mean(h n))
// Layouts: g, x, dx [rows, width], weight [width] or address 0, rstd, mean [rows], all contiguous. NumPy twin: norm_input_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "rows.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool WEIGHT = true;

layout(push_constant, scalar) uniform Arguments {
    Floats g, x, rstd, mean, weight, dx;
    uint rows, width;
    float offset;
};

// (h, h n) of one element; zeros beyond the row.
vec2 terms(const uint base, const uint d, const float centre, const float scale) {
    if (d >= width) return vec2(0.0);
    const float h = WEIGHT ? g.at[base + d] * (offset + weight.at[d]) : g.at[base + d];
    return vec2(h, h * ((x.at[base + d] - centre) * scale));
}

void main() {
    for (uint row = first_row(); row < rows; row += row_step()) {
        const uint base = row * width;
        const float centre = LAYER ? mean.at[row] : 0.0, scale = rstd.at[row];
        vec4 plain = vec4(0.0), product = vec4(0.0);
        for (uint d = LANE; d < width; d += 4 * LANES) {
            const vec2 a = terms(base, d, centre, scale), b = terms(base, d + LANES, centre, scale);
            const vec2 c = terms(base, d + 2 * LANES, centre, scale), e = terms(base, d + 3 * LANES, centre, scale);
            plain += vec4(a.x, b.x, c.x, e.x);
            product += vec4(a.y, b.y, c.y, e.y);
        }
        const float mean_h = LAYER ? sum_row(plain) / float(width) : 0.0, mean_hn = sum_row(product) / float(width);
        for (uint d = LANE; d < width; d += LANES) {
            const float n = (x.at[base + d] - centre) * scale;
            const float h = WEIGHT ? g.at[base + d] * (offset + weight.at[d]) : g.at[base + d];
            dx.at[base + d] = scale * (h - mean_h - n * mean_hn);
        }
    }
}
