// P(X) [M,K] of include/gemv.glsl written to C [M,K]: where gemv_fused's shared memory does not hold it, and on CPU drivers.
//
// One subgroup a row (workgroup x), lanes stride over K; moments in the order of norm.comp, so that a row that decodes alone has the bits
// that it has among many. The order of sums depends on the subgroup size alone.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "activation.glsl"
#include "rows.glsl"
#include "gemv.glsl"

// x - centre, or 0 beyond the row.
float deviation(Floats from, const uint base, const uint d, const uint length, const float centre) {
    const float v = from.at[base + min(d, length - 1)] - centre;
    return d < length ? v : 0.0;
}

vec4 deviations(Floats from, const uint base, const uint d, const uint length, const float centre) {
    return vec4(deviation(from, base, d, length, centre), deviation(from, base, d + LANES, length, centre),
                deviation(from, base, d + 2 * LANES, length, centre), deviation(from, base, d + 3 * LANES, length, centre));
}

void main() {
    const uint length = k, row = gl_WorkGroupID.x, base = row * ldx, to = row * ldc;
    Floats from = Floats(x), target = Floats(c);
    float mean = 0.0, rstd = 1.0;
    if (PROLOGUE == 2) {
        vec4 sums = vec4(0.0);
        for (uint d = LANE; d < length; d += 4 * LANES) sums += deviations(from, base, d, length, 0.0);
        mean = sum_row(sums) / float(length);
    }
    if (PROLOGUE == 1 || PROLOGUE == 2) {
        vec4 squares = vec4(0.0);
        for (uint d = LANE; d < length; d += 4 * LANES) {
            const vec4 v = deviations(from, base, d, length, mean);
            squares += v * v;
        }
        rstd = rsqrt_exact_(div_(sum_row(squares), float(length)) + eps);
    }
    if (gl_SubgroupID == 0)
        for (uint i = LANE; i < length; i += LANES) target.at[to + i] = prologue(from.at[base + i], row, i, mean, rstd);
}
