#version 460
// LayerNorm and RMSNorm, gradients of weight and bias, first stage: a lane sums one column over a chunk of rows, in blocks of 16
// (EXACT, on GPUs, which wait for memory here: of 4, and the blocks are added to compensated sums):
//     dweight[part][d] = sum over rows of g n,  dbias[part][d] = sum over rows of g,  n = (x - mean) rstd
// reduce.comp adds the parts. Layouts: g, x [rows, width], rstd, mean [rows], dweight, dbias [parts, width], all contiguous.
// Grid: column blocks, parts. NumPy twin: norm_weight_gradient_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool LAYER = false;
layout(constant_id = 2) const bool WEIGHT = true;
layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool EXACT = false;
const uint BLOCK = EXACT ? 4 : 16;

layout(push_constant, scalar) uniform Arguments {
    Floats g, x, rstd, mean, dweight, dbias;
    uint rows, width, chunk;
    uint zero;                                          // 0, see rows.glsl
};

void main() {
    Floats g_ = g, x_ = x, rstd_ = rstd, mean_ = mean, dweight_ = dweight, dbias_ = dbias;
    const uint d = gl_GlobalInvocationID.x, part = gl_WorkGroupID.y, width_ = width, own = zero;
    const uint stop = d < width_ ? min((part + 1) * chunk, rows) : 0;
    vec2 total = vec2(0.0), lost = vec2(0.0);
    for (uint block = part * chunk; block < stop; block += BLOCK) {
        vec2 sums = vec2(0.0);
        const uint end = min(block + BLOCK, stop);
        for (uint row = block; row < end; row++) {
            const float gradient = g_.at[row * width_ + d];
            sums.y += gradient;
            if (WEIGHT) sums.x += gradient * ((x_.at[row * width_ + d + own] - (LAYER ? mean_.at[row] : 0.0)) * rstd_.at[row + own]);
        }
        if (EXACT) add_exactly(total, lost, sums);
        else total += sums;
    }
    if (WEIGHT && d < width_) dweight_.at[part * width_ + d] = total.x;
    if (BIAS && d < width_) dbias_.at[part * width_ + d + own] = total.y;
}
