#version 460
// LayerNorm and RMSNorm, gradients of weight and bias, first stage: a lane sums one column over a chunk of rows, in blocks of 16:
//     dweight[part][d] = sum over rows of g n,  dbias[part][d] = sum over rows of g,  n = (x - mean) rstd
// reduce.comp adds the parts. Layouts: g, x [rows, width], rstd, mean [rows], dweight, dbias [parts, width], all contiguous.
// Grid: column blocks, parts. NumPy twin: norm_weight_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool WEIGHT = true;
layout(constant_id = 3) const bool BIAS = false;
const uint BLOCK = 16;

layout(push_constant, scalar) uniform Arguments {
    Floats g, x, rstd, mean, dweight, dbias;
    uint rows, width, chunk;
};

void main() {
    const uint d = gl_GlobalInvocationID.x, part = gl_WorkGroupID.y;
    if (d >= width) return;
    const uint stop = min((part + 1) * chunk, rows);
    vec2 total = vec2(0.0);
    for (uint block = part * chunk; block < stop; block += BLOCK) {
        vec2 sums = vec2(0.0);
        const uint end = min(block + BLOCK, stop);
        for (uint row = block; row < end; row++) {
            const float gradient = g.at[row * width + d];
            sums.y += gradient;
            if (WEIGHT) sums.x += gradient * ((x.at[row * width + d] - (LAYER ? mean.at[row] : 0.0)) * rstd.at[row]);
        }
        total += sums;
    }
    if (WEIGHT) dweight.at[part * width + d] = total.x;
    if (BIAS) dbias.at[part * width + d] = total.y;
}
