#version 460
// Gradients of keys and values of an attention on matrix units, scores kept in registers: a workgroup owns M keys of one key head and goes
// through N queries at a time, of each query head of its group.
//     p_i = exp(SCALE q_i k - lse_i),  ds_i = p_i (dout_i v - delta_i),  dk = SCALE sum_i ds_i q_i,  dv = sum_i p_i dout_i
// Layouts: q, k, v, dout, lse and delta as in attention_units_rows.comp; dk and dv [B,S,heads,WIDTH] halves, or f32 (PLANES 2). With SHARED, a
// workgroup takes one query head, and attention_group_sum.comp adds up what each group gives. Grid: heads, key blocks, batch. Limits: as
// there. NumPy twin: attention_backward_reference.
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
    uint64_t q, k, v, dout, dk, dv;
    Floats lse, delta;
    Ints segments_q, segments_k;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys;
};

shared uvec4 memory[BUFFERS * TILE > M * LINE ? BUFFERS * TILE : M * LINE];
shared int query_segment[BUFFERS * N];
shared float query_lse[BUFFERS * N], query_delta[BUFFERS * N];

uint batch;
uvec3 d_stride;
int next_segment;
float next_lse, next_delta;

void fetch_tile(const uint query_head, const uint heads, const uint first) {
    const uint64_t Q = q + 2ul * (uint64_t(batch) * q_stride.x + query_head * q_stride.z);
    const uint64_t D = dout + 2ul * (uint64_t(batch) * d_stride.x + query_head * d_stride.z);
    FETCH_TILE(Q, q_stride.y, multiple_of_8(Q, q_stride.y, 0), D, d_stride.y, true, first, queries)
    const uint t = min(first + gl_LocalInvocationID.x, queries - 1), at = (batch * heads + query_head) * queries + t;
    next_lse = lse.at[at];
    next_delta = delta.at[at];
    if (SEGMENTS) next_segment = segments_q.at[batch * queries + t];
}

void keep_tile(const uint stage) {
    KEEP_TILE(stage * TILE)
    if (gl_LocalInvocationID.x < N) {
        const uint at = stage * N + gl_LocalInvocationID.x;
        query_lse[at] = exponent_base(next_lse);
        query_delta[at] = next_delta;
        if (SEGMENTS) query_segment[at] = next_segment;
    }
}

void main() {
    const uint warp = gl_SubgroupID, lane = gl_SubgroupInvocationID;
    const uint lane_row = lane_sum(ROWS_L, lane), lane_column = lane_sum(COLUMNS_L, lane);
    const uint head = gl_WorkGroupID.x, key_heads = gl_NumWorkGroups.x, heads = key_heads * GROUP;
    batch = gl_WorkGroupID.z;
    const uint block = gl_WorkGroupID.y * M, end_key = min(block + M, keys);                                     // longest first
    const int offset = int(keys) - int(queries);
    const uint64_t K = k + 2ul * (uint64_t(batch) * k_stride.x + head / SHARED * k_stride.z);
    const uint64_t V = v + 2ul * (uint64_t(batch) * v_stride.x + head / SHARED * v_stride.z);
    const bool kv_aligned = multiple_of_8(K, k_stride.y, v_stride.y) && multiple_of_8(V, 0, 0);
    d_stride = dout_strides(q_stride, queries, heads);

    COOP_A key_rows[PLANES * FD];
    COOP_A value_rows[PLANES * FD];
    LOAD_OWN(K, k_stride.y, block, keys, kv_aligned)
    barrier();
    [[unroll]] for (uint i = 0; i < PLANES * FD; i++) coopMatLoad(key_rows[i], memory, warp * SIDE * LINE + i * SIDE / 8, LINE, ROW_MAJOR);
    barrier();
    LOAD_OWN(V, v_stride.y, block, keys, kv_aligned)
    barrier();
    [[unroll]] for (uint i = 0; i < PLANES * FD; i++) coopMatLoad(value_rows[i], memory, warp * SIDE * LINE + i * SIDE / 8, LINE, ROW_MAJOR);

    COOP_SUM sum_k[FD];
    COOP_SUM sum_v[FD];
    [[unroll]] for (uint i = 0; i < FD; i++) {
        sum_k[i] = COOP_SUM(0.0);
        sum_v[i] = COOP_SUM(0.0);
    }
    int first[CLASSES], last[CLASSES], segment[CLASSES];
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint c = class_of(e), key = min(block + warp * SIDE + lane_row + row_of_element(e), keys - 1);
        query_range(int(key), int(key), offset, int(queries), first[c], last[c]);
        segment[c] = SEGMENTS ? segments_k.at[batch * keys + key] : 0;
    }
    int start, stop, inner_first, inner_last, unused;          // inner_first .. inner_last see all keys of the block
    query_range(int(block), int(end_key - 1), offset, int(queries), start, stop);
    query_range(int(block), int(block), offset, int(queries), unused, inner_last);
    query_range(int(end_key - 1), int(end_key - 1), offset, int(queries), inner_first, unused);
    start -= start % int(N);
    const uint own = min(block + warp * SIDE, keys - 1);
    const float undo_k = undo_of(k, k_stride, batch, head / SHARED, own), undo_v = undo_of(v, v_stride, batch, head / SHARED, own);

    const int tiles = max(0, (stop - start + int(N)) / int(N)), all_tiles = tiles * int(GROUP);        // of one query head, of all
    uint stage = 0, other = BUFFERS - 1;
    barrier();
    if (tiles > 0) {
        fetch_tile(head * GROUP, heads, uint(start));
        keep_tile(0);
        barrier();
    }
    int i0 = start;
    uint query_head = head * GROUP;
    for (int tile = 0; tile < all_tiles; tile++) {
        const bool more = tile + 1 < all_tiles;
        const bool last_of_head = i0 + int(N) > stop;
        const int following = last_of_head ? start : i0 + int(N);
        if (more) fetch_tile(query_head + (last_of_head ? 1 : 0), heads, uint(following));
        const float undo_q = undo_of(q, q_stride, batch, query_head, uint(i0)), undo_d = undo_of(dout, d_stride, batch, query_head, uint(i0));
        const float factor = PLANES == 2 ? SCALE * undo_q * undo_k : SCALE * LOG2_E, undo_dv = undo_d * undo_v;
        const bool edge = SEGMENTS || i0 < inner_first || i0 + int(N) - 1 > inner_last;
        COOP_SUM change[FN];
        COOP_A weight[FN];
        COOP_A lower[FN];
        uint most = 0;
        [[unroll]] for (uint j = 0; j < FN; j++) {
            COOP_SUM score = COOP_SUM(0.0);
            COOP_SUM score_low = COOP_SUM(0.0);
            [[unroll]] for (uint i = 0; i < FD; i++)
                MULTIPLY(score, score_low, key_rows[i], key_rows[(PLANES - 1) * FD + i], stage * TILE + j * SIDE * LINE + i * SIDE / 8, COLUMN_MAJOR)
            if (PLANES == 2) score = score + score_low;
            if (edge)
                [[unroll]] for (uint e = 0; e < EACH; e++) {
                    const uint c = class_of(e), column = j * SIDE + lane_column + column_of_element(e);
                    const int position = i0 + int(column);
                    if (position < first[c] || position > last[c] || (SEGMENTS && query_segment[stage * N + column] != segment[c])) score[e] = NEGLIGIBLE;
                }
            COOP_SUM slope = COOP_SUM(0.0);
            COOP_SUM slope_low = COOP_SUM(0.0);
            [[unroll]] for (uint i = 0; i < FD; i++)
                MULTIPLY(slope, slope_low, value_rows[i], value_rows[(PLANES - 1) * FD + i], stage * TILE + (N + j * SIDE) * LINE + i * SIDE / 8, COLUMN_MAJOR)
            if (PLANES == 2) slope = slope + slope_low;
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                const uint column = j * SIDE + lane_column + column_of_element(e);
                const float p = weight_of(fma(score[e], factor, -query_lse[stage * N + column]));
                const float ds = p * fma(slope[e], undo_dv, -query_delta[stage * N + column]);
                KEEP(weight[j], lower[j], e, p)
                change[j][e] = ds;
                if (PLANES == 2) most = max(most, floatBitsToUint(ds) & 0x7FFFFFFFu);
            }
        }
        [[unroll]] for (uint d = 0; d < FD; d++) ADD_PRODUCT(sum_v[d], undo_d, weight, lower, FN, stage * TILE + N * LINE + d * SIDE / 8)
        const float power = PLANES == 2 ? power_for(subgroupMax(most)) : 1.0, undo = PLANES == 2 ? inverse_power(power) * undo_q : 1.0;
        [[unroll]] for (uint j = 0; j < FN; j++)
            [[unroll]] for (uint e = 0; e < EACH; e++) KEEP(weight[j], lower[j], e, change[j][e] * power)
        [[unroll]] for (uint d = 0; d < FD; d++) ADD_PRODUCT(sum_k[d], undo, weight, lower, FN, stage * TILE + d * SIDE / 8)
        if (BUFFERS == 1) barrier();
        if (more) keep_tile(other);
        barrier();
        const uint swap = stage;
        stage = other;
        other = swap;
        i0 = following;
        query_head += last_of_head ? 1 : 0;
    }
    STORE_ROWS(sum_k, dk, SCALE / float(1u << SHIFT), block + warp * SIDE, keys, key_heads)
    STORE_ROWS(sum_v, dv, 1.0 / float(1u << SHIFT), block + warp * SIDE, keys, key_heads)
}
