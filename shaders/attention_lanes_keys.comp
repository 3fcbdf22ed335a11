#version 460
// Gradients of the keys and values of an attention, for devices without fast shared memory: a lane owns keys and goes
// through the rows of all query heads of the group in a fixed order.
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
    [[dont_unroll]] for (uint row = uint(start) * GROUP; row < uint(stop + 1) * GROUP; row++) {
        const uint t = row / GROUP, h = head * GROUP + row % GROUP, score_row = (batch * heads + h) * queries + t;
        const uint q_at = batch * q_stride.x + t * q_stride.y + h * q_stride.z, dout_at = ((batch * queries + t) * heads + h) * VALUE_WIDTH;
        float score[OWN], dscore[OWN];
        [[unroll]] for (uint c = 0; c < OWN; c++) score[c] = dscore[c] = 0.0;
        DOT_OWN(score, key, PADDED, WIDTH, q_, q_at)
        DOT_OWN(dscore, value, VALUE_PADDED, VALUE_WIDTH, dout_, dout_at)
        const float lse = stats_.at[score_row], delta = stats_.at[all_rows + score_row];
        const int segment_q = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        const float slope = SLOPES ? slopes.at[h] : 0.0;
        int first, last;
        key_range(int(t), offset, int(keys), first, last);
        [[unroll]] for (uint c = 0; c < OWN; c++) {
            const int position = int(block + c * LANES + lane);
            float change;
            if (bent()) score[c] = bend(score[c], slope, int(t) + offset - position, change);
            const bool seen = position >= first && position <= last && segment_q == segment[c];
            const float probability = seen ? exp_(score[c] - lse) : 0.0;
            const float kept = DROP_BELOW > 0 ? keep(random_quad(score_row, keys, uint(position) / 4, stream, seed), position) : 1.0;
            score[c] = probability * kept;
            dscore[c] = probability * (dscore[c] * kept - delta);
            if (SOFTCAP > 0.0) dscore[c] *= change;
        }
        ADD_OWN(dvalue, score, VALUE_PADDED, VALUE_WIDTH, dout_, dout_at)
        ADD_OWN(dkey, dscore, PADDED, WIDTH, q_, q_at)
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
