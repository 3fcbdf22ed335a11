#version 460
// Gradient of the queries of an attention, for devices without fast shared memory: a lane owns rows,
// which stay in registers, and goes through the keys, two at a time, which are the same for all lanes.
//     p_j = exp(bend(SCALE q k_j) - lse),  dp_j = dropout(dout v_j),  dq = SCALE sum_j bend'(SCALE q k_j) p_j (dp_j - delta) k_j,
//     delta += sum_j p_j (dp_j - delta), which is 0 but for the rounding of dout * outcome: the keys' gradients, which must add up
//     to nothing over the keys (the gradient of a key bias), then read a delta three times closer.
// Since that sum is 0, dq is also SCALE sum_j p_j (dp_j - delta) (k_j - c) for any c. Four keys' mean is close to what keys have in common, and
// times that the rounding of delta comes in: dq -= SCALE c sum_j p_j (dp_j - delta), in a last round of the loop. Not with a SOFTCAP.
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] strided (last stride 1); dout and dq contiguous; stats as
// attention_delta.comp writes them. Workgroup = subgroup = LANES; grid: row blocks, key heads, batch.
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
    Floats dq;
    Ints segments_q, segments_k;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

void main() {
    Floats q_ = q, k_ = k, v_ = v, dout_ = dout, dq_ = dq;        // see rows.glsl
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, block = gl_WorkGroupID.x * LANES * OWN, end_row = min(block + LANES * OWN, rows);
    const uint all_rows = gl_NumWorkGroups.z * heads * queries;
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 key = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);

    float query[OWN][PADDED], sum[OWN][PADDED], gradient[OWN][VALUE_PADDED], lse[OWN], delta[OWN], left[OWN], slope[OWN];
    int first[OWN], last[OWN], segment[OWN], place[OWN];
    uint score_row[OWN], at[OWN], from[OWN];
    [[unroll]] for (uint r = 0; r < OWN; r++) {
        const uint row = min(block + r * LANES + lane, rows - 1), t = row / GROUP, h = head * GROUP + row % GROUP;
        at[r] = batch * q_stride.x + t * q_stride.y + h * q_stride.z;
        from[r] = ((batch * queries + t) * heads + h) * VALUE_WIDTH;
        [[unroll]] for (uint d = 0; d < PADDED; d++) sum[r][d] = 0.0;
        key_range(int(t), offset, int(keys), first[r], last[r]);
        segment[r] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        score_row[r] = (batch * heads + h) * queries + t;
        lse[r] = stats.at[score_row[r]];
        delta[r] = stats.at[all_rows + score_row[r]];
        place[r] = int(t) + offset;
        slope[r] = SLOPES ? slopes.at[h] : 0.0;
        left[r] = 0.0;
    }
    LOAD_OWN(query, PADDED, WIDTH, q_, at, SCALE)
    LOAD_OWN(gradient, VALUE_PADDED, VALUE_WIDTH, dout_, from, 1.0)

    int start, stop, unused;
    key_range(int(block / GROUP), offset, int(keys), start, unused);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), unused, stop);
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    [[dont_unroll]] for (int quad = start & ~3; quad <= (stop & ~3) + 4; quad += 4) {
        const bool after = quad > stop;                        // the keys are through: c, as said above
        uvec4 bits[OWN];
        if (DROP_BELOW > 0)
            [[unroll]] for (uint r = 0; r < OWN; r++) bits[r] = random_quad(score_row[r], keys, uint(quad) / 4, stream, key);
        [[dont_unroll]] for (int j = quad; j <= (after ? quad + 3 : min(quad + 3, stop)); j += 2) {
            const int spread = (stop - start) * (2 * (j - quad) + 1) / 8, spread_next = (stop - start) * (2 * (j - quad) + 3) / 8;
            const int here = after ? start + spread : j, next = after ? start + spread_next : min(j + 1, int(keys) - 1);
            vec2 score[OWN], dscore[OWN];
            [[unroll]] for (uint r = 0; r < OWN; r++) score[r] = dscore[r] = vec2(0.0);
            const uint v_at = v_base + uint(here) * v_stride.y, v_next = v_base + uint(next) * v_stride.y;
            const uint k_at = k_base + uint(here) * k_stride.y, k_next = k_base + uint(next) * k_stride.y;
            DOT_OWN(score, query, PADDED, WIDTH, k_, k_at, k_next)
            DOT_OWN(dscore, gradient, VALUE_PADDED, VALUE_WIDTH, v_, v_at, v_next)
            const ivec2 segment_k = SEGMENTS ? ivec2(segments_k.at[batch * keys + uint(here)], segments_k.at[batch * keys + uint(next)]) : ivec2(0);
            [[unroll]] for (uint r = 0; r < OWN; r++) {
                vec2 change;
                if (bent()) score[r] = vec2(bend(score[r].x, slope[r], place[r] - j, change.x), bend(score[r].y, slope[r], place[r] - j - 1, change.y));
                const bool seen = j >= first[r] && j <= last[r] && segment_k.x == segment[r];
                const bool sees_next = j + 1 >= first[r] && j + 1 <= last[r] && segment_k.y == segment[r];
                const vec2 probability = vec2(seen ? exp_(score[r].x - lse[r]) : 0.0, sees_next ? exp_(score[r].y - lse[r]) : 0.0);
                const vec2 dropped = DROP_BELOW > 0 ? dscore[r] * vec2(keep(bits[r], j), keep(bits[r], j + 1)) : dscore[r];
                dscore[r] = after ? vec2(SOFTCAP > 0.0 ? 0.0 : -0.25 * left[r]) : probability * (dropped - delta[r]);
                left[r] += after ? 0.0 : dscore[r].x + dscore[r].y;
                if (SOFTCAP > 0.0) dscore[r] *= change;
            }
            ADD_OWN(sum, 1.0, dscore, PADDED, WIDTH, k_, k_at, k_next)
        }
    }

    float factor[OWN];
    [[unroll]] for (uint r = 0; r < OWN; r++) {
        const uint row = block + r * LANES + lane;
        at[r] = ((batch * queries + row / GROUP) * heads + head * GROUP + row % GROUP) * WIDTH;
        factor[r] = SCALE;
        if (row < rows) stats.at[all_rows + score_row[r]] = delta[r] + left[r];
    }
    STORE_OWN(sum, PADDED, WIDTH, dq_, at, factor, block, rows)
}
