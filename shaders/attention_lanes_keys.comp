#version 460
// Gradients of the keys and values of an attention, for devices without fast shared memory: a lane owns keys and goes
// through the rows of all query heads of the group in a fixed order, two at a time.
//     p_i = exp(bend(SCALE q_i k) - lse_i),  dv = sum_i dropout(p_i) dout_i,
//     dk = SCALE sum_i bend'(SCALE q_i k) p_i (dropout(dout_i v) - delta_i) q_i
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] strided (last stride 1); dout, dk and dv contiguous; stats as
// attention_delta.comp writes them. Workgroup = subgroup = LANES; grid: key blocks, key heads, batch.
// Limits: fewer than 2^32 elements in each operand. NumPy twin: attention_backward_reference.
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
    Floats q, k, v, dout, stats;
    Floats dk, dv;
    Ints segments_q, segments_k;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

void main() {
    Floats q_ = q, k_ = k, v_ = v, dout_ = dout, stats_ = stats, dk_ = dk, dv_ = dv;        // see rows.glsl
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, block = gl_WorkGroupID.x * LANES * OWN, all_rows = gl_NumWorkGroups.z * heads * queries;
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 seed = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);

    float key[OWN][PADDED], dkey[OWN][PADDED], value[OWN][VALUE_PADDED], dvalue[OWN][VALUE_PADDED];
    int segment[OWN];
    uint at[OWN], from[OWN];
    [[unroll]] for (uint c = 0; c < OWN; c++) {
        const uint position = min(block + c * LANES + lane, keys - 1);
        at[c] = batch * k_stride.x + position * k_stride.y + head * k_stride.z;
        from[c] = batch * v_stride.x + position * v_stride.y + head * v_stride.z;
        [[unroll]] for (uint d = 0; d < PADDED; d++) dkey[c][d] = 0.0;
        [[unroll]] for (uint d = 0; d < VALUE_PADDED; d++) dvalue[c][d] = 0.0;
        segment[c] = SEGMENTS ? segments_k.at[batch * keys + position] : 0;
    }
    LOAD_OWN(key, PADDED, WIDTH, k_, at, SCALE)
    LOAD_OWN(value, VALUE_PADDED, VALUE_WIDTH, v_, from, 1.0)

    int start, stop;
    query_range(int(block), int(min(block + LANES * OWN, keys)) - 1, offset, int(queries), start, stop);
    const uint end_row = uint(stop + 1) * GROUP;
    [[dont_unroll]] for (uint pair = uint(start) * GROUP; pair < end_row; pair += 2) {
        uint t[2], h[2], score_row[2], q_at[2], dout_at[2];
        int first[2], last[2], segment_q[2];
        float lse[2], delta[2], slope[2];
        [[unroll]] for (uint i = 0; i < 2; i++) {
            const uint row = min(pair + i, end_row - 1);
            t[i] = row / GROUP;
            h[i] = head * GROUP + row % GROUP;
            score_row[i] = (batch * heads + h[i]) * queries + t[i];
            q_at[i] = batch * q_stride.x + t[i] * q_stride.y + h[i] * q_stride.z;
            dout_at[i] = ((batch * queries + t[i]) * heads + h[i]) * VALUE_WIDTH;
            lse[i] = stats_.at[score_row[i]];
            delta[i] = stats_.at[all_rows + score_row[i]];
            segment_q[i] = SEGMENTS ? segments_q.at[batch * queries + t[i]] : 0;
            slope[i] = SLOPES ? slopes.at[h[i]] : 0.0;
            key_range(int(t[i]), offset, int(keys), first[i], last[i]);
            if (pair + i >= end_row) last[i] = -1;             // the last row again, unseen
        }
        vec2 score[OWN], dscore[OWN];
        [[unroll]] for (uint c = 0; c < OWN; c++) score[c] = dscore[c] = vec2(0.0);
        DOT_OWN(score, key, PADDED, WIDTH, q_, q_at[0], q_at[1])
        DOT_OWN(dscore, value, VALUE_PADDED, VALUE_WIDTH, dout_, dout_at[0], dout_at[1])
        [[unroll]] for (uint c = 0; c < OWN; c++)
            [[unroll]] for (uint i = 0; i < 2; i++) {
                const int position = int(block + c * LANES + lane);
                float change;
                if (bent()) score[c][i] = bend(score[c][i], slope[i], int(t[i]) + offset - position, change);
                const bool seen = position >= first[i] && position <= last[i] && segment_q[i] == segment[c];
                const float probability = seen ? exp_(score[c][i] - lse[i]) : 0.0;
                const float kept = DROP_BELOW > 0 ? keep(random_quad(score_row[i], keys, uint(position) / 4, stream, seed), position) : 1.0;
                score[c][i] = probability * kept;
                dscore[c][i] = probability * (dscore[c][i] * kept - delta[i]);
                if (SOFTCAP > 0.0) dscore[c][i] *= change;
            }
        ADD_OWN(dvalue, 1.0, score, VALUE_PADDED, VALUE_WIDTH, dout_, dout_at[0], dout_at[1])
        ADD_OWN(dkey, 1.0, dscore, PADDED, WIDTH, q_, q_at[0], q_at[1])
    }

    float factor[OWN], one[OWN];
    [[unroll]] for (uint c = 0; c < OWN; c++) {
        const uint row = (batch * keys + block + c * LANES + lane) * gl_NumWorkGroups.y + head;
        at[c] = row * WIDTH;
        from[c] = row * VALUE_WIDTH;
        factor[c] = SCALE;
        one[c] = 1.0;
    }
    STORE_OWN(dkey, PADDED, WIDTH, dk_, at, factor, block, keys)
    STORE_OWN(dvalue, VALUE_PADDED, VALUE_WIDTH, dv_, from, one, block, keys)
}
