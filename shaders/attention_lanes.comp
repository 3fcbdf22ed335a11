#version 460
// Attention forward for devices without fast shared memory: a lane owns ROWS rows, which stay in registers, and goes through the
// keys, which are the same for all lanes. Online softmax, one key at a time; the scores are never stored.
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

    float query[OWN][PADDED], sum[OWN][VALUE_PADDED], top[OWN], total[OWN], slope[OWN];
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
        total[r] = 0.0;
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
        [[dont_unroll]] for (int j = quad; j <= min(quad + 3, stop); j++) {
            float score[OWN], shrink[OWN];
            [[unroll]] for (uint r = 0; r < OWN; r++) score[r] = 0.0;
            DOT_OWN(score, query, PADDED, WIDTH, k_, k_base + uint(j) * k_stride.y)
            const int segment_k = SEGMENTS ? segments_k.at[batch * keys + uint(j)] : 0;
            [[unroll]] for (uint r = 0; r < OWN; r++) {
                float change;
                if (bent()) score[r] = bend(score[r], slope[r], place[r] - j, change);
                const bool seen = j >= first[r] && j <= last[r] && segment_k == segment[r];
                const float highest = seen ? max(top[r], score[r]) : top[r];
                const float probability = seen ? exp_(score[r] - highest) : 0.0;
                shrink[r] = exp_(top[r] - highest);
                total[r] = fma(total[r], shrink[r], probability);
                top[r] = highest;
                score[r] = DROP_BELOW > 0 ? probability * keep(bits[r], j) : probability;
            }
            [[unroll]] for (uint r = 0; r < OWN; r++)
                [[unroll]] for (uint d = 0; d < VALUE_PADDED; d++) sum[r][d] *= shrink[r];
            ADD_OWN(sum, score, VALUE_PADDED, VALUE_WIDTH, v_, v_base + uint(j) * v_stride.y)
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
