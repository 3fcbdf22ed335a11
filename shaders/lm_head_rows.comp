// Cross-entropy of rows of logits, and their gradient in place of them.
//
//   z_j = softcap(scale * logits_j)        softcap(v) = c tanh(v / c); c = 0: none
//   nll = log(sum_j exp(z_j)) - z_target   0 where target < 0, NaN where target >= vocabulary
//   logits_j <- (exp(z_j) / sum - [j = target]) * token_weight * scale * (1 - (z_j / c)^2)      when GRADIENTS
//
// logits [rows, stride], stride even and rows 8-byte aligned; targets i32 [rows], token_weights and nll [rows].
// One workgroup a row; WIDE: see combine.glsl.
// One pass finds maximum and sum (each lane rescales its compensated sum when its maximum grows), one writes the gradient.
// Per-row results depend on the row alone. NumPy twin: hierarchos.kernels.lm_head.lm_head_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_int32 : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool WIDE = false;
layout(constant_id = 2) const bool GRADIENTS = false;
layout(constant_id = 3) const bool SOFTCAP = false;

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uint64_t at[]; };

layout(push_constant, scalar) uniform Arguments {
    Pairs logits;
    Ints targets;
    Floats token_weights, nll;
    uint rows, vocabulary, stride;
    float scale, cap;
};

const uint UNROLL = 4;
const float LOWEST = -3.0e38;                              // stands for columns that are not there
#include "combine.glsl"

float bend(float raw) { return SOFTCAP ? cap * tanh_(div_(raw * scale, cap)) : raw * scale; }

Pairs logits_;
uint vocabulary_;

// Pair p of the row whose first pair is `start`.
vec2 load_pair(uint start, uint p) {
    vec2 raw = uintBitsToFloat(unpack32(logits_.at[start + min(p, (vocabulary_ - 1) / 2)]));
    return vec2(2 * p < vocabulary_ ? bend(raw.x) : LOWEST, 2 * p + 1 < vocabulary_ ? bend(raw.y) : LOWEST);
}

void main() {
    Ints targets_ = targets;                               // copies from outside the loops, and no early return: see rows.glsl
    Floats token_weights_ = token_weights, nll_ = nll;
    logits_ = logits;
    vocabulary_ = vocabulary;
    const uint rows_ = rows, pairs = (vocabulary_ + 1) / 2, line_pairs = stride / 2, width = gl_WorkGroupSize.x, lane = gl_LocalInvocationID.x;
    for (uint row = gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x; row < rows_; row += gl_NumWorkGroups.x * gl_NumWorkGroups.y) {
        const uint line = row * line_pairs;
        int target = targets_.at[row];

        float highest = LOWEST;
        float sum = 0.0, lost = 0.0;
        for (uint first = lane; first < pairs; first += UNROLL * width) {
            vec2 z[UNROLL];
            float top = highest;
            [[unroll]] for (uint u = 0; u < UNROLL; u++) {
                z[u] = load_pair(line, first + u * width);
                top = max(top, max(z[u].x, z[u].y));
            }
            float shrink = exp_(highest - top), more = 0.0;
            [[unroll]] for (uint u = 0; u < UNROLL; u++) more += exp_(z[u].x - top) + exp_(z[u].y - top);
            sum *= shrink;
            lost *= shrink;
            add_exactly(sum, lost, more);
            highest = top;
        }
        float chosen = 0.0;
        if (target >= 0) {
            uint t = uint(target);
            vec2 pair = load_pair(line, min(t, vocabulary - 1) / 2);
            chosen = t >= vocabulary ? uintBitsToFloat(0x7fc00000u) : t % 2 == 0 ? pair.x : pair.y;
        }
        float maximum = combine(highest, true);
        float total = combine(sum * exp_(highest - maximum), false);
        if (lane == 0) nll_.at[row] = target < 0 ? 0.0 : log_(total) - (chosen - maximum);
        if (!GRADIENTS) continue;

        float weight = target < 0 ? 0.0 : token_weights_.at[row] * scale, inverse = div_(1.0, total);
        for (uint p = lane; p < pairs; p += width) {
            vec2 z = load_pair(line, p);
            vec2 slope = vec2(exp_(z.x - maximum), exp_(z.y - maximum)) * inverse;
            if (target >= 0 && uint(target) / 2 == p) {
                if (target % 2 == 0) slope.x -= 1.0;
                else slope.y -= 1.0;
            }
            slope *= weight;
            if (SOFTCAP) {
                vec2 bent = vec2(div_(z.x, cap), div_(z.y, cap));
                slope *= 1.0 - bent * bent;
            }
            if (2 * p + 1 >= vocabulary) slope.y = 0.0;
            logits_.at[line + p] = pack64(floatBitsToUint(slope));
        }
    }
}
