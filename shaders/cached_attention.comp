// Decoding attention over cached keys and values: out [B,T,Hq,Dv] = softmax(cap(scale q k^T) - slope distance) v.
//
// A workgroup has one query row (batch, time, query head) and one part of its keys: an invocation a key for the scores (in shared memory),
// then channels by fours times slices of keys for the sums. With FRESH (T = 1) the new key and value are taken from k and v, and the
// first query head of each group writes them into the cache, so that rope, cache write and attention are one launch. q and the new key
// are rotated here where there are tables (HALF > 0). The query of time t stands at position p = offset[b] + t and sees positions
// max(0, p - WINDOW + 1) .. p; position j lies in slot j, or j mod SLOTS in a ring. Parts go through attention_combine.
// Layouts: q [B,T,Hq,D], k [B,T,Hk,D], v [B,T,Hk,Dv] with strides; caches [B,S,Hk,D] and [B,S,Hk,Dv], tables [P,HALF] row-major.
// Limits: PART keys a workgroup; D, Dv <= 512. NumPy twin: hierarchos.kernels.cached_attention.cached_attention_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint LOCAL = 256;
layout(constant_id = 2) const uint TIMES = 1;
layout(constant_id = 3) const uint SLOTS = 64;
layout(constant_id = 4) const uint HEADS = 1;
layout(constant_id = 5) const uint KEY_HEADS = 1;
layout(constant_id = 6) const uint D = 64;
layout(constant_id = 7) const uint DV = 64;
layout(constant_id = 8) const uint WINDOW = 0xFFFFFFFFu;
layout(constant_id = 9) const uint PART = 512;
layout(constant_id = 10) const uint PARTS = 1;
layout(constant_id = 11) const bool FRESH = true;
layout(constant_id = 12) const uint HALF = 0;
layout(constant_id = 13) const bool INTERLEAVED = false;
layout(constant_id = 14) const uint TABLE_ROWS = 1;
layout(constant_id = 15) const float SCALE = 1.0;
layout(constant_id = 16) const float SOFTCAP = 0.0;
layout(constant_id = 17) const uint Q_B = 0;
layout(constant_id = 18) const uint Q_T = 0;
layout(constant_id = 19) const uint Q_H = 0;
layout(constant_id = 20) const uint K_B = 0;
layout(constant_id = 21) const uint K_H = 0;
layout(constant_id = 22) const uint V_B = 0;
layout(constant_id = 23) const uint V_H = 0;
layout(constant_id = 24) const uint SUBGROUPS = 8;
layout(constant_id = 25) const bool RING = false;
layout(constant_id = 26) const uint AHEAD = 1;          // D / 4 where slots are known before the offset is (no window), else 1

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v, keys, values;
    Ints offset;
    Floats slopes, cosine, sine;
    Ints positions;
    Floats result, lse;
};

const bool GPU = LOCAL > 64;
const uint AT_ONCE = GPU ? 8 : 1;
const uint PADDED = (D + 3) / 4, PADDED_V = (DV + 3) / 4;
const uint HELD = GPU ? 1 : PADDED;                     // vec4s of the query in registers: shared memory is slow on CPU drivers
const uint SLICES = LOCAL / PADDED_V > 0 ? LOCAL / PADDED_V : 1;
shared vec4 query[PADDED];
shared vec4 fresh_key[PADDED];
shared float score[PART];
shared vec4 sums[SLICES * PADDED_V];
shared float partial[SUBGROUPS];

float largest(float v) {
    v = subgroupMax(v);
    if (gl_SubgroupInvocationID == 0) partial[gl_SubgroupID] = v;
    barrier();
    float m = partial[0];
    for (uint i = 1; i < gl_NumSubgroups; i++) m = max(m, partial[i]);
    barrier();
    return m;
}

float total(float v) {
    v = subgroupAdd(v);
    if (gl_SubgroupInvocationID == 0) partial[gl_SubgroupID] = v;
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) sum += partial[i];
    barrier();
    return sum;
}

// Channel i of a head at `from`, rotated.
float rotated(Floats x, const uint from, const uint i, const uint row) {
    const float a = x.at[from + i];
    if (HALF == 0 || i >= 2 * HALF) return a;
    const uint pair = INTERLEAVED ? i / 2 : i % HALF;
    const bool first = INTERLEAVED ? i % 2 == 0 : i < HALF;
    const float b = x.at[from + (INTERLEAVED ? i ^ 1 : first ? i + HALF : i - HALF)];
    const float c = cosine.at[row * HALF + pair], s = sine.at[row * HALF + pair];
    return first ? a * c - b * s : a * c + b * s;
}

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Words { uint64_t at[]; };

vec2 pair(const uint64_t word) { return uintBitsToFloat(unpackUint2x32(word)); }

// The four floats at element from + 4 c (multiples of 4): CPU drivers take as long for 8 bytes at a 32-bit index as for 4, and for a 64-bit
// address of each lane thrice as long.
vec4 four(Words words, const uint from, const uint c) {
    if (GPU) return Vec4s(uint64_t(words) + 4ul * from).at[c];
    const uint at = from / 2 + 2 * c;
    const uint64_t low = words.at[at], high = words.at[at + 1];
    return vec4(pair(low), pair(high));
}

float dot4(const vec4 a, const vec4 b) { return fma(a.x, b.x, fma(a.y, b.y, fma(a.z, b.z, a.w * b.w))); }

void main() {
    const uint lane = gl_LocalInvocationIndex, head = gl_WorkGroupID.x / PARTS, part = gl_WorkGroupID.x % PARTS;
    const uint time = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, key_head = head / (HEADS / KEY_HEADS);
    const int p = offset.at[batch] + int(time);
    const int begin = WINDOW == 0xFFFFFFFFu ? 0 : max(0, p - int(WINDOW) + 1);
    const int first = begin + int(part * PART), seen = min(p + 1, RING ? 0x7FFFFFFF : int(SLOTS));
    const int count = clamp(seen - first, 0, int(PART));
    const uint row = HALF == 0 ? 0 : uint(clamp(positions.at[batch * TIMES + time], 0, int(TABLE_ROWS) - 1));
    const uint at_q = batch * Q_B + time * Q_T + head * Q_H, at_k = batch * K_B + key_head * K_H, at_v = batch * V_B + key_head * V_H;

    vec4 ahead[AHEAD];                                  // the key of this invocation, asked for before the query is there
    if (AHEAD > 1) {
        const uint slot = min(part * PART + lane, SLOTS - 1), from = ((batch * SLOTS + slot) * KEY_HEADS + key_head) * D;
        [[unroll]] for (uint c = 0; c < AHEAD; c++) ahead[c] = Vec4s(uint64_t(keys) + 4ul * from).at[c];
    }
    for (uint i = lane; i < 4 * PADDED; i += LOCAL) query[i / 4][i % 4] = i < D ? rotated(q, at_q, i, row) : 0.0;
    if (FRESH)
        for (uint i = lane; i < 4 * PADDED; i += LOCAL) fresh_key[i / 4][i % 4] = i < D ? rotated(k, at_k, i, row) : 0.0;
    barrier();
    const uint new_slot = RING ? uint(p) % SLOTS : uint(p);
    if (FRESH && part == 0 && head % (HEADS / KEY_HEADS) == 0 && new_slot < SLOTS) {
        const uint to = (batch * SLOTS + new_slot) * KEY_HEADS + key_head;
        for (uint i = lane; i < D; i += LOCAL) keys.at[to * D + i] = fresh_key[i / 4][i % 4];
        for (uint i = lane; i < DV; i += LOCAL) values.at[to * DV + i] = v.at[at_v + i];
    }

    vec4 held[HELD];
    if (!GPU)
        [[unroll]] for (uint c = 0; c < HELD; c++) held[c] = query[c];
    Words key_words = Words(uint64_t(keys));
    float best = -3.4028235e38;
    const float slope = uint64_t(slopes) != 0 ? slopes.at[head] : 0.0;
    for (uint i = lane; i < uint(count); i += LOCAL) {
        const int j = first + int(i);
        const uint slot = RING ? uint(j) % SLOTS : uint(j), from = ((batch * SLOTS + slot) * KEY_HEADS + key_head) * D;
        float s = 0.0;
        if (FRESH && j == p) {
            if (D % 4 == 0) {
                vec4 sum = vec4(0.0);
                [[unroll]] for (uint c = 0; c < PADDED; c++) sum = fma(GPU ? query[c] : held[c % HELD], fresh_key[c], sum);
                s = (sum.x + sum.y) + (sum.z + sum.w);
            } else {
                for (uint c = 0; c < D; c++) s = fma(query[c / 4][c % 4], fresh_key[c / 4][c % 4], s);
            }
        } else if (AHEAD > 1 && i == lane) {
            vec4 sum = vec4(0.0);
            [[unroll]] for (uint c = 0; c < AHEAD; c++) sum = fma(query[c], ahead[c], sum);
            s = (sum.x + sum.y) + (sum.z + sum.w);
        } else if (D % 4 == 0) {                        // caches begin at multiples of 256 bytes
            vec4 sum = vec4(0.0);
            [[unroll]] for (uint c = 0; c < D / 4; c++) sum = fma(GPU ? query[c] : held[c % HELD], four(key_words, from, c), sum);
            s = (sum.x + sum.y) + (sum.z + sum.w);
        } else {
            for (uint c = 0; c < D; c++) s = fma(query[c / 4][c % 4], keys.at[from + c], s);
        }
        s *= SCALE;
        if (SOFTCAP > 0.0) s = SOFTCAP * tanh_(s / SOFTCAP);
        s -= slope * float(p - j);
        score[i] = s;
        best = max(best, s);
    }
    best = largest(best);
    float sum = 0.0;
    for (uint i = lane; i < uint(count); i += LOCAL) {
        const float e = exp_(score[i] - best);
        score[i] = e;
        sum += e;
    }
    sum = total(sum);

    Words value_words = Words(uint64_t(values));        // here: read behind a barrier, it is known to be the same in all lanes
    const uint channel = lane % PADDED_V, slice = lane / PADDED_V;
    for (uint c = channel; c < PADDED_V && slice < SLICES; c += LOCAL) {
        vec4 mixed = vec4(0.0);
        for (uint base = slice; base < uint(count); base += AT_ONCE * SLICES) {
            vec4 value[AT_ONCE];
            float weight[AT_ONCE];
            [[unroll]] for (uint n = 0; n < AT_ONCE; n++) {                      // all loads under way before the first is used
                const uint i = min(base + n * SLICES, uint(count) - 1);
                const int j = first + int(i);
                const bool counts = base + n * SLICES < uint(count) && !(FRESH && j == p);
                const uint slot = RING ? uint(j) % SLOTS : uint(j);
                const uint from = ((batch * SLOTS + slot) * KEY_HEADS + key_head) * DV + 4 * c;
                vec4 found = vec4(0.0);
                if (DV % 4 == 0) found = four(value_words, from, 0);
                else for (uint e = 0; e < min(4u, DV - 4 * c); e++) found[e] = values.at[from + e];
                value[n] = counts ? found : vec4(0.0);
                weight[n] = score[i];
            }
            [[unroll]] for (uint n = 0; n < AT_ONCE; n++) mixed = fma(vec4(weight[n]), value[n], mixed);
        }
        if (FRESH && p - first >= 0 && p - first < count && slice == uint(p - first) % SLICES) {
            vec4 found = vec4(0.0);
            for (uint e = 0; e < min(4u, DV - 4 * c); e++) found[e] = v.at[at_v + 4 * c + e];
            mixed = fma(vec4(score[p - first]), found, mixed);
        }
        sums[slice * PADDED_V + c] = mixed;
    }
    barrier();
    const uint out_row = (batch * TIMES + time) * HEADS + head;
    const uint rows = gl_NumWorkGroups.z * TIMES * HEADS;
    for (uint i = lane; i < DV; i += LOCAL) {
        float mixed = 0.0;
        for (uint s = 0; s < SLICES; s++) mixed += sums[s * PADDED_V + i / 4][i % 4];
        result.at[(part * rows + out_row) * DV + i] = sum > 0.0 ? mixed / sum : 0.0;
    }
    if (PARTS > 1 && lane == 0)
        lse.at[part * rows + (batch * HEADS + head) * TIMES + time] = sum > 0.0 ? best + log_(sum) : -3.0e38;
}
