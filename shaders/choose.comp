// The next token of each row from its logits [B,V], and what the next step needs: one workgroup a row.
//
//   s = logits, with the repetition penalty where a token was seen; without sampling the largest wins (the lowest id of equal ones)
//   else s / temperature, then in this order, each on what the one before kept: top-k, top-p, min-p, typical, epsilon, eta
//   token = argmin E / p = argmax s - log E,  E = -log(1 - u), u in (0,1) from Philox (token / 4, row, position, 0) under the seed
//
// Thresholds are found on the bits of the scores (ordered as integers), two bits a pass. ids [B] = the token, history [b, position mod
// HISTORY] = the token, seen [b, token] = 1, offset [b] += 1. A row whose logits are not all finite gets the token -1 - (its id stays).
// settings (words): 0 sample, 1 temperature, 2 top_k, 3 top_p, 4 min_p, 5 typical_p, 6 epsilon, 7 eta, 8 repetition penalty, 9 10 seed;
// 0 stands for "off" in 2 to 7. work: scores [B,V]. NumPy twin: hierarchos.generation.sampling.choose.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#include "numerics.glsl"
#include "random.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LOCAL = 512;
layout(constant_id = 2) const uint SUBGROUPS = 64;
const uint EACH = 8;                                    // loads of an invocation under way at once

layout(push_constant, scalar) uniform Arguments {
    Floats logits, work;
    Uints settings, seen;
    Ints ids, offset, history;
    uint vocabulary, history_length;
};

shared vec3 partial[SUBGROUPS];
shared uvec2 pairs[SUBGROUPS];

vec3 total(vec3 v) {
    v = subgroupAdd(v);
    if (subgroupElect()) partial[gl_SubgroupID] = v;
    barrier();
    vec3 sum = vec3(0.0);
    for (uint i = 0; i < gl_NumSubgroups; i++) sum += partial[i];
    barrier();
    return sum;
}

// Largest value as its ordered bits, and the lowest index that has it.
uvec2 best(uint key, uint index) {
    const uint most = subgroupMax(key);
    index = subgroupMin(key == most ? index : 0xFFFFFFFFu);
    if (subgroupElect()) pairs[gl_SubgroupID] = uvec2(most, index);
    barrier();
    uvec2 found = pairs[0];
    for (uint i = 1; i < gl_NumSubgroups; i++)
        if (pairs[i].x > found.x || (pairs[i].x == found.x && pairs[i].y < found.y)) found = pairs[i];
    barrier();
    return found;
}

uint ordered(const float x) {
    const uint bits = floatBitsToUint(x);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

float unordered(const uint key) { return uintBitsToFloat((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key); }

// What is summed over which keys: 0 ones over keys above, 1 probabilities over keys up to, 2 probabilities over deviations up to.
float weigh(const uint kind, const float s, const float top) { return kind == 0 ? 1.0 : exp_(s - top); }

uint key_of(const uint kind, const float s, const float log_total, const float entropy) {
    return kind == 2 ? floatBitsToUint(abs(log_total - s - entropy)) : ordered(s);
}

// The smallest key whose sum over keys up to it is above (kind 1), or reaches (2), `target`; for kind 0 the largest that `target` keys reach.
uint select(const uint kind, const uint row, const uint low, const float top, const float log_total, const float entropy, const float target) {
    const uint count = vocabulary;
    uint prefix = 0;
    float before = 0.0;                                 // of keys below the prefix
    for (int shift = 30; shift >= 0; shift -= 2) {
        vec3 sums = vec3(0.0);
        for (uint base = gl_LocalInvocationIndex; base < count; base += EACH * LOCAL) {
            float scores[EACH];
            [[unroll]] for (uint e = 0; e < EACH; e++) scores[e] = work.at[row * count + min(base + e * LOCAL, count - 1)];
            [[unroll]] for (uint e = 0; e < EACH; e++) {
            const float s = scores[e];
            const bool inside = base + e * LOCAL < count;
            const uint key = key_of(kind, s, log_total, entropy);
            const bool counts = inside && ordered(s) >= low && (shift == 30 || (key >> (shift + 2)) == (prefix >> (shift + 2)));
            const float value = counts ? weigh(kind, s, top) : 0.0;
            const uint digit = (key >> shift) & 3;
            sums += value * vec3(digit == 0, digit == 1, digit == 2);
            }
        }
        sums = total(sums);
        uint digit = 0;
        float at = before;
        for (uint d = 0; d < 3; d++) {
            const float next = at + sums[d];
            const bool enough = kind == 1 ? next > target : next >= target;
            if (enough) break;
            at = next;
            digit = d + 1;
        }
        before = at;
        prefix |= digit << shift;
    }
    return prefix;
}

// Sum of exp(s - top), and of (s - top) exp(s - top), over scores that are kept.
vec2 moments(const uint row, const uint low, const uint furthest, const float top, const float log_total, const float entropy) {
    const uint count = vocabulary;
    vec3 sums = vec3(0.0);
    for (uint base = gl_LocalInvocationIndex; base < count; base += EACH * LOCAL) {
        float scores[EACH];
        [[unroll]] for (uint e = 0; e < EACH; e++) scores[e] = work.at[row * count + min(base + e * LOCAL, count - 1)];
        [[unroll]] for (uint e = 0; e < EACH; e++) {
        const float s = scores[e];
        if (base + e * LOCAL < count && ordered(s) >= low && (furthest == 0xFFFFFFFFu || key_of(2, s, log_total, entropy) <= furthest)) {
            const float p = exp_(s - top);
            sums += vec3(p, p * (s - top), 0.0);
        }
        }
    }
    return total(sums).xy;
}

float setting(const uint index) { return uintBitsToFloat(settings.at[index]); }

float race(const uint word) {
    const float u = (float(word) + 0.5) * 2.3283064365386963e-10;
    const float e = u < 0.015625 ? u * (1.0 + u * (0.5 + u * (0.33333334 + u * 0.25))) : -log_(max(1.0 - u, 5.9604645e-8));
    return log_(e);
}

void main() {
    const uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationIndex, count = vocabulary;
    const bool sample_ = settings.at[0] != 0;
    const float penalty = setting(8), temperature = sample_ ? setting(1) : 1.0;
    const int position = offset.at[row];
    float wrong = 0.0;
    uint key = 0, index = 0xFFFFFFFFu;
    for (uint base = lane; base < count; base += EACH * LOCAL) {
        float scores[EACH];
        uint before[EACH];
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            const uint at = row * count + min(base + e * LOCAL, count - 1);
            scores[e] = logits.at[at];
            before[e] = penalty != 1.0 ? seen.at[at] : 0;
        }
        [[unroll]] for (uint e = 0; e < EACH; e++) {
            const uint i = base + e * LOCAL;
            float s = scores[e];
            if (i < count) {
                wrong += isnan(s) || s == uintBitsToFloat(0x7F800000u) ? 1.0 : 0.0;
                if (before[e] != 0) s = s < 0.0 ? s * penalty : s / penalty;
                if (temperature != 1.0) s = s / temperature;
                if (sample_) work.at[row * count + i] = s;
                const uint k = ordered(s);
                if (k > key) { key = k; index = i; }
            }
        }
    }
    const bool broken = total(vec3(wrong)).x > 0.0;
    const uvec2 largest = best(key, index);
    uint token = largest.y;
    if (sample_ && !broken) {
        const float top = unordered(largest.x);
        uint low = 0, furthest = 0xFFFFFFFFu;           // kept: ordered(s) >= low and deviation <= furthest
        float log_total = 0.0, entropy = 0.0;
        const uint k = min(uint(settings.at[2]), count);
        if (k > 0 && k < count) low = select(0, row, 0, top, 0.0, 0.0, float(count - k + 1));
        if (setting(3) > 0.0) {
            const float mass = moments(row, low, furthest, top, 0.0, 0.0).x;
            low = max(low, min(select(1, row, low, top, 0.0, 0.0, (1.0 - setting(3)) * mass), largest.x));
        }
        if (setting(4) > 0.0) low = max(low, min(ordered(top + log_(setting(4))), largest.x));
        if (setting(5) > 0.0) {
            const vec2 m = moments(row, low, furthest, top, 0.0, 0.0);
            log_total = top + log_(m.x);
            entropy = log_(m.x) - m.y / m.x;
            furthest = select(2, row, low, top, log_total, entropy, setting(5) * m.x);
        }
        if (setting(6) > 0.0) {
            const vec2 m = moments(row, low, furthest, top, log_total, entropy);
            low = max(low, min(ordered(top + log_(m.x * setting(6))), largest.x));
        }
        if (setting(7) > 0.0) {
            const vec2 m = moments(row, low, furthest, top, log_total, entropy);
            const float h = log_(m.x) - m.y / m.x, eta = min(setting(7), sqrt_(setting(7)) * exp_(-h));
            low = max(low, min(ordered(top + log_(m.x * eta)), largest.x));
        }
        const uvec2 seed = uvec2(settings.at[9], settings.at[10]);
        key = 0;
        index = 0xFFFFFFFFu;
        for (uint i = lane; i < count; i += LOCAL) {
            const float s = work.at[row * count + i];
            if (ordered(s) < low || s < -3.0e38 || (furthest != 0xFFFFFFFFu && key_of(2, s, log_total, entropy) > furthest)) continue;
            const uvec4 words = philox(uvec4(i >> 2, row, uint(position), 0), seed);
            const uint k = ordered(s - race(words[i & 3]));
            if (k > key) { key = k; index = i; }
        }
        const uvec2 drawn = best(key, index);
        token = drawn.y == 0xFFFFFFFFu ? largest.y : drawn.y;
    }
    barrier();
    if (lane == 0) {
        history.at[row * history_length + uint(position) % history_length] = broken ? -1 : int(token);
        ids.at[row] = broken ? 0 : int(token);
        offset.at[row] = position + 1;
        if (penalty != 1.0 && !broken) seen.at[row * count + token] = 1;
    }
}
