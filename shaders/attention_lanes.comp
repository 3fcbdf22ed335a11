#version 460
// Attention forward for devices without fast shared memory: a lane owns ROWS rows, which stay in registers, and goes through the
// keys, which are the same for all lanes. Online softmax, two keys at a time; the scores are never stored.
//     out[row] = sum_j p_j v[j],  p = softmax(bend(SCALE q k^T) over the keys that the row sees),  lse[row] = log sum exp
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] with strides of batch, time and head (last stride 1);
// out [B,T,Hq,VALUE_WIDTH] and lse [B,Hq,T] contiguous. Grid: row blocks, key heads, batch.
// Limits: fewer than 2^32 elements in each operand. NumPy twin: attention_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_EXT_shader_explicit_arithmetic_types_int32 : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"
#include "attention_lanes.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v;
    Floats outcome, lse;
    Ints segments_q, segments_k;
    Uints seed;
    Ints offsets;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

void main() {
    Floats q_ = q, k_ = k, v_ = v, outcome_ = outcome;        // see rows.glsl
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, block = gl_WorkGroupID.x * LANES * OWN, end_row = min(block + LANES * OWN, rows);
    const int offset = uint64_t(offsets) != 0 ? offsets.at[batch] : int(keys) - int(queries);
    const uvec2 key = DROP_BELOW > 0 ? uvec2(seed.at[0], seed.at[1]) : uvec2(0);

    float query[OWN][PADDED], sum[OWN][VALUE_PADDED], top[OWN], slope[OWN];
    precise float total[OWN], lost[OWN];                      // compensated
    int first[OWN], last[OWN], segment[OWN], place[OWN];
    uint score_row[OWN], at[OWN];
    [[unroll]] for (uint r = 0; r < OWN; r++) {
        const uint row = min(block + r * LANES + lane, rows - 1), t = row / GROUP, h = head * GROUP + row % GROUP;
        at[r] = batch * q_stride.x + t * q_stride.y + h * q_stride.z;
        [[unroll]] for (uint d = 0; d < VALUE_PADDED; d++) sum[r][d] = 0.0;
        key_range(int(t), offset, int(keys), first[r], last[r]);
        segment[r] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        score_row[r] = (batch * heads + h) * queries + t;
        place[r] = int(t) + offset;
        slope[r] = SLOPES ? slopes.at[h] : 0.0;
        top[r] = NEGLIGIBLE;
        total[r] = lost[r] = 0.0;
    }
    LOAD_OWN(query, PADDED, WIDTH, q_, at, SCALE)

    int start, stop, unused;
    key_range(int(block / GROUP), offset, int(keys), start, unused);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), unused, stop);
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    [[dont_unroll]] for (int quad = start & ~3; quad <= stop; quad += 4) {
        uvec4 bits[OWN];
        if (DROP_BELOW > 0)
            [[unroll]] for (uint r = 0; r < OWN; r++) bits[r] = random_quad(score_row[r], keys, uint(quad) / 4, stream, key);
        [[dont_unroll]] for (int j = quad; j <= min(quad + 3, stop); j += 2) {
            const int next = min(j + 1, int(keys) - 1);
            vec2 score[OWN];
            float shrink[OWN];
            [[unroll]] for (uint r = 0; r < OWN; r++) score[r] = vec2(0.0);
            DOT_OWN(score, query, PADDED, WIDTH, k_, k_base + uint(j) * k_stride.y, k_base + uint(next) * k_stride.y)
            const ivec2 segment_k = SEGMENTS ? ivec2(segments_k.at[batch * keys + uint(j)], segments_k.at[batch * keys + uint(next)]) : ivec2(0);
            [[unroll]] for (uint r = 0; r < OWN; r++) {
                float change;
                if (bent()) score[r] = vec2(bend(score[r].x, slope[r], place[r] - j, change), bend(score[r].y, slope[r], place[r] - j - 1, change));
                const bool seen = j >= first[r] && j <= last[r] && segment_k.x == segment[r];
                const bool sees_next = j + 1 >= first[r] && j + 1 <= last[r] && segment_k.y == segment[r];
                const float highest = max(top[r], max(seen ? score[r].x : top[r], sees_next ? score[r].y : top[r]));
                const vec2 probability = vec2(seen ? exp_(score[r].x - highest) : 0.0, sees_next ? exp_(score[r].y - highest) : 0.0);
                shrink[r] = exp_(top[r] - highest);
                precise const float term = probability.x + probability.y - lost[r] * shrink[r], kept = total[r] * shrink[r], sum_ = kept + term;
                lost[r] = (sum_ - kept) - term;
                total[r] = sum_;
                top[r] = highest;
                score[r] = DROP_BELOW > 0 ? probability * vec2(keep(bits[r], j), keep(bits[r], j + 1)) : probability;
            }
            ADD_OWN(sum, shrink[o], score, VALUE_PADDED, VALUE_WIDTH, v_, v_base + uint(j) * v_stride.y, v_base + uint(next) * v_stride.y)
        }
    }

    [[unroll]] for (uint r = 0; r < OWN; r++) {
        const uint row = block + r * LANES + lane;
        at[r] = ((batch * queries + row / GROUP) * heads + head * GROUP + row % GROUP) * VALUE_WIDTH;
        if (row < rows) lse.at[score_row[r]] = total[r] != 0.0 ? top[r] + log_(total[r]) : NEGLIGIBLE;
        total[r] = total[r] != 0.0 ? 1.0 / total[r] : 0.0;
    }
    STORE_OWN(sum, VALUE_PADDED, VALUE_WIDTH, outcome_, at, total, block, rows)
}
