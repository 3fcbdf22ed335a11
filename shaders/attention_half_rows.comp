#version 460
// Gradient of the queries of an attention, on matrix units: a workgroup owns M queries of one head and goes through N keys at a time.
//     p_j = exp(SCALE q k_j - lse),  ds_j = p_j (dout v_j - delta),  dq = SCALE sum_j ds_j k_j
// Layouts: q, k, v as in attention_half.comp; dout and dq [B,T,Hq,WIDTH] halves contiguous; lse and delta [B,Hq,T] f32.
// ds is rounded to halves for its product. Grid: query blocks, query heads, batch. NumPy twin: attention_backward_reference, rounded.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "half.glsl"
#include "attention.glsl"
#include "attention_half.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    uint64_t q, k, v, dout, dq;
    Floats lse, delta;
    Ints segments_q, segments_k;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys;
};

const uint TILES = 2 * N > M ? 2 * N * LINE : M * LINE;
shared uvec4 memory[TILES + 2 * WARPS * REGION];
shared ivec4 key_segment[N / 4];

void main() {
    const uint warp = gl_SubgroupID, lane = gl_SubgroupInvocationID, side = lane % LPR, own_line = lane / LPR;
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y, key_head = head / GROUP;
    const uint block = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * M, end_row = min(block + M, queries);       // longest first
    const int offset = int(keys) - int(queries);
    const uint64_t Q = q + 2ul * (uint64_t(batch) * q_stride.x + head * q_stride.z);
    const uint64_t K = k + 2ul * (uint64_t(batch) * k_stride.x + key_head * k_stride.z);
    const uint64_t V = v + 2ul * (uint64_t(batch) * v_stride.x + key_head * v_stride.z);
    const uint64_t D = dout + 2ul * (uint64_t(batch) * queries * heads + head) * WIDTH;
    const bool q_aligned = multiple_of_8(Q, q_stride.y, 0), kv_aligned = multiple_of_8(K, k_stride.y, v_stride.y) && multiple_of_8(V, 0, 0);

    COOP_A rows[FK];
    COOP_A slopes[FK];
    LOAD_LINES(0, M, Q, q_stride.y, block, queries, q_aligned)
    barrier();
    [[unroll]] for (uint i = 0; i < FK; i++)
        coopMatLoad(rows[i], memory, warp * MM * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    LOAD_LINES(0, M, D, heads * WIDTH, block, queries, true)
    barrier();
    [[unroll]] for (uint i = 0; i < FK; i++)
        coopMatLoad(slopes[i], memory, warp * MM * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);

    COOP_SUM sum[FD];
    [[unroll]] for (uint i = 0; i < FD; i++) sum[i] = COOP_SUM(0.0);
    const uint t = min(block + warp * MM + own_line, queries - 1), stat = (batch * heads + head) * queries + t;
    int first, last, start, stop, inner_first, inner_last;     // all rows see inner_first .. inner_last
    key_range(int(t), offset, int(keys), first, last);
    const int segment = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
    const float own_lse = lse.at[stat] * LOG2_E, own_delta = delta.at[stat];
    key_range(int(block), offset, int(keys), start, inner_last);
    key_range(int(end_row - 1), offset, int(keys), inner_first, stop);
    start -= start % int(N);
    const uint region = TILES + 2 * warp * REGION, line = region + own_line * SCORE_LINE, half_line = region + own_line * HALF_LINE;

    for (int j0 = start; j0 <= stop; j0 += int(N)) {
        barrier();
        LOAD_LINES(0, N, K, k_stride.y, uint(j0), keys, kv_aligned)
        LOAD_LINES(N * LINE, N, V, v_stride.y, uint(j0), keys, kv_aligned)
        if (SEGMENTS)
            for (uint i = gl_LocalInvocationID.x; i < N; i += ALL)
                key_segment[i / 4][i % 4] = segments_k.at[batch * keys + min(uint(j0) + i, keys - 1)];
        barrier();

        [[unroll]] for (uint j = 0; j < FN; j++) {
            COOP_SUM score = COOP_SUM(0.0);
            COOP_SUM dscore = COOP_SUM(0.0);
            [[unroll]] for (uint i = 0; i < FK; i++) {
                COOP_B column;
                coopMatLoad(column, memory, j * MN * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutColumnMajor);
                score = coopMatMulAdd(rows[i], column, score);
                coopMatLoad(column, memory, (N + j * MN) * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutColumnMajor);
                dscore = coopMatMulAdd(slopes[i], column, dscore);
            }
            coopMatStore(score, memory, region + j * MN / 4, SCORE_LINE, gl_CooperativeMatrixLayoutRowMajor);
            coopMatStore(dscore, memory, region + REGION + j * MN / 4, SCORE_LINE, gl_CooperativeMatrixLayoutRowMajor);
        }
        SYNC
        uvec2 halves[QUADS];
        const bool edge = SEGMENTS || j0 < inner_first || j0 + int(N) - 1 > inner_last;
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            const uint quad = LPR * i + side;
            const vec4 s = uintBitsToFloat(memory[line + quad]) * (SCALE * LOG2_E) - own_lse;
            vec4 ds = uintBitsToFloat(memory[line + REGION + quad]) - own_delta;
            [[unroll]] for (uint e = 0; e < 4; e++) ds[e] *= power_of_two(s[e]);
            if (edge) {
                const ivec4 there = SEGMENTS ? key_segment[quad] : ivec4(0);
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    const int position = j0 + int(4 * quad + e);
                    if (position < first || position > last || there[e] != segment) ds[e] = 0.0;
                }
            }
            halves[i] = narrow_fast(ds);
        }
        SYNC
        [[unroll]] for (uint i = 0; i < QUADS; i++) {
            const uint at = 4 * (LPR * i + side);
            memory[half_line + at / 8][at % 8 / 2] = halves[i].x;
            memory[half_line + at / 8][at % 8 / 2 + 1] = halves[i].y;
        }
        SYNC
        [[unroll]] for (uint i = 0; i < FNK; i++) {
            COOP_A weight;
            coopMatLoad(weight, memory, region + i * MK / 8, HALF_LINE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint j = 0; j < FD; j++) {
                COOP_B column;
                coopMatLoad(column, memory, i * MK * LINE + j * MN / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);
                sum[j] = coopMatMulAdd(weight, column, sum[j]);
            }
        }
        SYNC
    }

    const uint row = block + warp * MM + own_line;
    STORE_ROWS(sum, dq, SCALE, row, queries, heads)
}
