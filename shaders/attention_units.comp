#version 460
// Attention forward on matrix units, scores kept in registers: a workgroup owns M queries of one head and goes through N keys at a time.
//     out[row] = sum_j p_j v[j],  p = softmax(SCALE q k^T over the keys that the row sees),  lse[row] = log sum exp
// Layouts: q [B,T,Hq,..], k and v [B,S,Hk,..] lines of halves as in attention_units.glsl, strides of batch, time and head in halves; out
// [B,T,Hq,WIDTH] halves (PLANES 1) or f32 (PLANES 2), lse [B,Hq,T] f32, contiguous. Grid: query heads, query blocks, batch. Limits: WIDTH =
// VALUE_WIDTH, a multiple of SIDE; eight elements of a matrix an invocation; no dropout, soft cap or slopes. NumPy twin: attention_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
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
    uint64_t q, k, v, outcome;
    Floats lse;
    Ints segments_q, segments_k, offsets;
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
    const int offset = OFFSETS ? offsets.at[batch] : int(keys) - int(queries);
    const uint64_t Q = q + 2ul * (uint64_t(batch) * q_stride.x + head * q_stride.z);
    K = k + 2ul * (uint64_t(batch) * k_stride.x + key_head * k_stride.z);
    V = v + 2ul * (uint64_t(batch) * v_stride.x + key_head * v_stride.z);
    const bool q_aligned = multiple_of_8(Q, q_stride.y, 0);
    kv_aligned = multiple_of_8(K, k_stride.y, v_stride.y) && multiple_of_8(V, 0, 0);

    LOAD_OWN(Q, q_stride.y, block, queries, q_aligned)
    barrier();
    COOP_A rows[PLANES * FD];
    [[unroll]] for (uint i = 0; i < PLANES * FD; i++) coopMatLoad(rows[i], memory, warp * SIDE * LINE + i * SIDE / 8, LINE, ROW_MAJOR);

    COOP_SUM sum[FD];
    [[unroll]] for (uint i = 0; i < FD; i++) sum[i] = COOP_SUM(0.0);
    float top[CLASSES], total[CLASSES], shrink[CLASSES];
    int first[CLASSES], last[CLASSES], segment[CLASSES];
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint c = class_of(e), t = min(block + warp * SIDE + lane_row + row_of_element(e), queries - 1);
        key_range(int(t), offset, int(keys), first[c], last[c]);
        segment[c] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        top[c] = FLOOR;
        total[c] = 0.0;
    }
    int start, stop, inner_first, inner_last;                  // all rows see inner_first .. inner_last
    key_range(int(block), offset, int(keys), start, inner_last);
    key_range(int(end_row - 1), offset, int(keys), inner_first, stop);
    start -= start % int(N);
    const float undo_q = undo_of(q, q_stride, batch, head, min(block + warp * SIDE, queries - 1));

    uint stage = 0, other = BUFFERS - 1;
    barrier();
    if (start <= stop) {
        fetch_tile(uint(start));
        keep_tile(0);
        barrier();
    }
    for (int j0 = start; j0 <= stop; j0 += int(N)) {
        const float factor = PLANES == 2 ? SCALE * undo_q * undo_of(k, k_stride, batch, key_head, uint(j0)) : SCALE * LOG2_E;
        const float undo_v = undo_of(v, v_stride, batch, key_head, uint(j0));
        const bool more = j0 + int(N) <= stop;
        if (more) fetch_tile(uint(j0) + N);

        COOP_SUM score[FN];
        [[unroll]] for (uint j = 0; j < FN; j++) {
            COOP_SUM high = COOP_SUM(0.0);
            COOP_SUM low = COOP_SUM(0.0);
            [[unroll]] for (uint i = 0; i < FD; i++) MULTIPLY(high, low, rows[i], rows[(PLANES - 1) * FD + i], stage * TILE + j * SIDE * LINE + i * SIDE / 8, COLUMN_MAJOR)
            if (PLANES == 2) high = high + low;
            score[j] = high;
        }
        if (SEGMENTS || j0 < inner_first || j0 + int(N) - 1 > inner_last)
            [[unroll]] for (uint j = 0; j < FN; j++)
                [[unroll]] for (uint e = 0; e < EACH; e++) {
                    const uint c = class_of(e), column = j * SIDE + lane_column + column_of_element(e);
                    const int position = j0 + int(column);
                    if (position < first[c] || position > last[c] || (SEGMENTS && key_segment[stage * N + column] != segment[c])) score[j][e] = NEGLIGIBLE;
                }
        [[unroll]] for (uint c = 0; c < CLASSES; c++) {
            float most = NEGLIGIBLE;
            [[unroll]] for (uint j = 0; j < FN; j++)
                [[unroll]] for (uint e = 0; e < EACH; e++) if (class_of(e) == c) most = max(most, score[j][e]);
            const float highest = max(top[c], across_row(most, true) * factor);
            shrink[c] = weight_of(top[c] - highest) * (1.0 / float(1u << SHIFT));
            top[c] = highest;
            total[c] *= shrink[c];
        }
        COOP_A weight[FN];
        COOP_A lower[FN];
        [[unroll]] for (uint j = 0; j < FN; j++)
            [[unroll]] for (uint e = 0; e < EACH; e++) {
                const uint c = class_of(e);
                const float p = weight_of(fma(score[j][e], factor, -top[c]));
                total[c] += p;
                KEEP(weight[j], lower[j], e, p)
            }
        [[unroll]] for (uint d = 0; d < FD; d++) {
            [[unroll]] for (uint e = 0; e < EACH; e++) sum[d][e] = sum[d][e] * shrink[class_of(e)];
            ADD_PRODUCT(sum[d], undo_v, weight, lower, FN, stage * TILE + N * LINE + d * SIDE / 8)
        }
        if (BUFFERS == 1) barrier();
        if (more) keep_tile(other);
        barrier();
        const uint swap = stage;
        stage = other;
        other = swap;
    }

    [[unroll]] for (uint c = 0; c < CLASSES; c++) total[c] = across_row(total[c], false);
    float inverse_[CLASSES];
    [[unroll]] for (uint e = 0; e < EACH; e++) {
        const uint c = class_of(e), t = block + warp * SIDE + lane_row + row_of_element(e);
        const bool nothing = total[c] == 0.0;
        inverse_[c] = nothing ? 0.0 : 1.0 / total[c];
        const float sums = nothing ? 1.0 : total[c] * (1.0 / float(1u << SHIFT));
        if (t < queries && lane_column == 0 && column_of_element(e) == 0)
            lse.at[(batch * heads + head) * queries + t] = nothing ? NEGLIGIBLE : top[c] * (PLANES == 2 ? 1.0 : 1.0 / LOG2_E) + log_(sums);
    }
    [[unroll]] for (uint d = 0; d < FD; d++)
        [[unroll]] for (uint e = 0; e < EACH; e++) sum[d][e] = sum[d][e] * inverse_[class_of(e)];
    STORE_ROWS(sum, outcome, 1.0, block + warp * SIDE, queries, heads)
}
