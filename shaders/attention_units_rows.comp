#version 460
// Gradient of the queries of an attention on matrix units, scores kept in registers: a workgroup owns M queries of one head and goes through
// N keys at a time.
//     p_j = exp(SCALE q k_j - lse),  ds_j = p_j (dout v_j - delta),  dq = SCALE sum_j ds_j k_j
// and with PLANES 2 delta += sum_j ds_j, as in attention_block_rows.comp: it takes the rounding of delta out of the keys' gradients.
// Layouts: q, k, v as in attention_units.comp; dout [B,T,Hq,WIDTH] halves contiguous, or lines as q has them (PLANES 2); dq [B,T,Hq,WIDTH]
// halves, or f32 (PLANES 2); lse and delta [B,Hq,T] f32. Grid: query heads, query blocks, batch. Limits: as there. NumPy twin:
// attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "half.glsl"
#include "attention.glsl"
#include "matrix_layout.glsl"
#include "attention_units.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    uint64_t q, k, v, dout, dq;
    Floats lse, delta;
    Ints segments_q, segments_k;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys;
};

shared uvec4 memory[BUFFERS * TILE > M * LINE ? BUFFERS * TILE : M * LINE];
shared int key_segment[BUFFERS * N];

uint batch;
uint64_t K, V;
bool kv_aligned;
int next_segment;

void fetch_tile(const uint first) {
    FETCH_TILE(K, k_stride.y, kv_aligned, V, v_stride.y, kv_aligned, first, keys)
    if (SEGMENTS) next_segment = segments_k.at[batch * keys + min(first + gl_LocalInvocationID.x, keys - 1)];
}

void keep_tile(const uint stage) {
    KEEP_TILE(stage * TILE)
    if (SEGMENTS && gl_LocalInvocationID.x < N) key_segment[stage * N + gl_LocalInvocationID.x] = next_segment;
}

void main() {
    const uint warp = gl_SubgroupID, lane = gl_SubgroupInvocationID;
    const uint lane_row = lane_sum(ROWS_L, lane), lane_column = lane_sum(COLUMNS_L, lane);
    const uint head = gl_WorkGroupID.x, heads = gl_NumWorkGroups.x, key_head = head / GROUP;
    batch = gl_WorkGroupID.z;
    const uint block = (gl_NumWorkGroups.y - 1 - gl_WorkGroupID.y) * M, end_row = min(block + M, queries);       // longest first
    const int offset = int(keys) - int(queries);
    const uint64_t Q = q + 2ul * (uint64_t(batch) * q_stride.x + head * q_stride.z);
    K = k + 2ul * (uint64_t(batch) * k_stride.x + key_head * k_stride.z);
    V = v + 2ul * (uint64_t(batch) * v_stride.x + key_head * v_stride.z);
    const uvec3 d_stride = dout_strides(q_stride, queries, heads);
    const uint64_t D = dout + 2ul * (uint64_t(batch) * d_stride.x + head * d_stride.z);
    const bool q_aligned = multiple_of_8(Q, q_stride.y, 0);
    kv_aligned = multiple_of_8(K, k_stride.y, v_stride.y) && multiple_of_8(V, 0, 0);

    COOP_A rows[PLANES * FD];
    COOP_A slopes[PLANES * FD];
    LOAD_OWN(Q, q_stride.y, block, queries, q_aligned)
    barrier();
    [[unroll]] for (uint i = 0; i < PLANES * FD; i++) coopMatLoad(rows[i], memory, warp * SIDE * LINE + i * SIDE / 8, LINE, ROW_MAJOR);
    barrier();
    LOAD_OWN(D, d_stride.y, block, queries, true)
    barrier();
    [[unroll]] for (uint i = 0; i < PLANES * FD; i++) coopMatLoad(slopes[i], memory, warp * SIDE * LINE + i * SIDE / 8, LINE, ROW_MAJOR);

    COOP_SUM sum[FD];
    [[unroll]] for (uint i = 0; i < FD; i++) sum[i] = COOP_SUM(0.0);
    float own_lse[CLASSES], own_delta[CLASSES], left[CLASSES];
    int first[CLASSES], last[CLASSES], segment[CLASSES];
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint c = class_of(e), t = min(block + warp * SIDE + lane_row + row_of_element(e), queries - 1);
        const uint at = (batch * heads + head) * queries + t;
        key_range(int(t), offset, int(keys), first[c], last[c]);
        segment[c] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        own_lse[c] = exponent_base(lse.at[at]);
        own_delta[c] = delta.at[at];
        left[c] = 0.0;
    }
    int start, stop, inner_first, inner_last;                  // all rows see inner_first .. inner_last
    key_range(int(block), offset, int(keys), start, inner_last);
    key_range(int(end_row - 1), offset, int(keys), inner_first, stop);
    start -= start % int(N);
    const uint own = min(block + warp * SIDE, queries - 1);
    const float undo_q = undo_of(q, q_stride, batch, head, own), undo_d = undo_of(dout, d_stride, batch, head, own);

    uint stage = 0, other = BUFFERS - 1;
    barrier();
    if (start <= stop) {
        fetch_tile(uint(start));
        keep_tile(0);
        barrier();
    }
    for (int j0 = start; j0 <= stop; j0 += int(N)) {
        const float undo_k = undo_of(k, k_stride, batch, key_head, uint(j0)), undo_v = undo_of(v, v_stride, batch, key_head, uint(j0));
        const float factor = PLANES == 2 ? SCALE * undo_q * undo_k : SCALE * LOG2_E, undo_dv = undo_d * undo_v;
        const bool more = j0 + int(N) <= stop;
        if (more) fetch_tile(uint(j0) + N);

        const bool edge = SEGMENTS || j0 < inner_first || j0 + int(N) - 1 > inner_last;
        COOP_SUM change[FN];
        uint most = 0;
        [[unroll]] for (uint j = 0; j < FN; j++) {
            COOP_SUM score = COOP_SUM(0.0);
            COOP_SUM score_low = COOP_SUM(0.0);
            [[unroll]] for (uint i = 0; i < FD; i++)
                MULTIPLY(score, score_low, rows[i], rows[(PLANES - 1) * FD + i], stage * TILE + j * SIDE * LINE + i * SIDE / 8, COLUMN_MAJOR)
            if (PLANES == 2) score = score + score_low;
            if (edge)
                [[unroll]] for (uint e = 0; e < EACH; e++) {
                    const uint c = class_of(e), column = j * SIDE + lane_column + column_of_element(e);
                    const int position = j0 + int(column);
                    if (position < first[c] || position > last[c] || (SEGMENTS && key_segment[stage * N + column] != segment[c])) score[e] = NEGLIGIBLE;
                }
            COOP_SUM slope = COOP_SUM(0.0);
            COOP_SUM slope_low = COOP_SUM(0.0);
            [[unroll]] for (uint i = 0; i < FD; i++)
                MULTIPLY(slope, slope_low, slopes[i], slopes[(PLANES - 1) * FD + i], stage * TILE + (N + j * SIDE) * LINE + i * SIDE / 8, COLUMN_MAJOR)
            if (PLANES == 2) slope = slope + slope_low;
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                const uint c = class_of(e);
                const float ds = weight_of(fma(score[e], factor, -own_lse[c])) * fma(slope[e], undo_dv, -own_delta[c]);
                change[j][e] = ds;
                if (PLANES == 2) {
                    left[c] += ds;
                    most = max(most, floatBitsToUint(ds) & 0x7FFFFFFFu);
                }
            }
        }
        const float power = PLANES == 2 ? power_for(subgroupMax(most)) : 1.0, undo = PLANES == 2 ? inverse_power(power) * undo_k : 1.0;
        COOP_A weight[FN];
        COOP_A lower[FN];
        [[unroll]] for (uint j = 0; j < FN; j++)
            [[unroll]] for (uint e = 0; e < EACH; e++) KEEP(weight[j], lower[j], e, change[j][e] * power)
        [[unroll]] for (uint d = 0; d < FD; d++) ADD_PRODUCT(sum[d], undo, weight, lower, FN, stage * TILE + d * SIDE / 8)
        if (BUFFERS == 1) barrier();
        if (more) keep_tile(other);
        barrier();
        const uint swap = stage;
        stage = other;
        other = swap;
    }

    if (PLANES == 2)
        [[unroll]] for (uint c = 0; c < CLASSES; c++) left[c] = across_row(left[c], false) * (1.0 / float(1u << SHIFT));
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint c = class_of(e), t = block + warp * SIDE + lane_row + row_of_element(e);
        if (PLANES == 2 && t < queries && lane_column == 0 && column_of_element(e) == 0)
            delta.at[(batch * heads + head) * queries + t] = own_delta[c] + left[c];
    }
    STORE_ROWS(sum, dq, SCALE / float(1u << SHIFT), block + warp * SIDE, queries, heads)
}
