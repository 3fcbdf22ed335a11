#version 460
// Gradients of keys and values of an attention, on matrix units: a workgroup owns M keys of one key head and goes through N queries at a
// time, of each query head of its group.
//     p_i = exp(SCALE q_i k - lse_i),  ds_i = p_i (dout_i v - delta_i),  dk = SCALE sum_i ds_i q_i,  dv = sum_i p_i dout_i
// Layouts: q, k, v as in attention_half.comp; dout [B,T,Hq,WIDTH], dk and dv [B,S,Hk,WIDTH] halves contiguous; lse and delta [B,Hq,T] f32.
// p and ds are rounded to halves for their products. Grid: key blocks, key heads, batch. NumPy twin: attention_backward_reference, rounded.
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
    uint64_t q, k, v, dout, dk, dv;
    Floats lse, delta;
    Ints segments_q, segments_k;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys;
};

const uint TILES = 2 * N > M ? 2 * N * LINE : M * LINE;
shared uvec4 memory[TILES + 2 * WARPS * REGION];
shared ivec4 query_segment[N / 4];
shared vec4 query_lse[N / 4], query_delta[N / 4];

void main() {
    const uint warp = gl_SubgroupID, lane = gl_SubgroupInvocationID, side = lane % LPR, own_line = lane / LPR;
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, key_heads = gl_NumWorkGroups.y, heads = key_heads * GROUP;
    const uint block = gl_WorkGroupID.x * M, end_key = min(block + M, keys);                                     // longest first
    const int offset = int(keys) - int(queries);
    const uint64_t K = k + 2ul * (uint64_t(batch) * k_stride.x + head * k_stride.z);
    const uint64_t V = v + 2ul * (uint64_t(batch) * v_stride.x + head * v_stride.z);
    const bool kv_aligned = multiple_of_8(K, k_stride.y, v_stride.y) && multiple_of_8(V, 0, 0);

    COOP_A key_rows[FK];
    COOP_A value_rows[FK];
    LOAD_LINES(0, M, K, k_stride.y, block, keys, kv_aligned)
    barrier();
    [[unroll]] for (uint i = 0; i < FK; i++)
        coopMatLoad(key_rows[i], memory, warp * MM * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    LOAD_LINES(0, M, V, v_stride.y, block, keys, kv_aligned)
    barrier();
    [[unroll]] for (uint i = 0; i < FK; i++)
        coopMatLoad(value_rows[i], memory, warp * MM * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);

    COOP_SUM sum_k[FD];
    COOP_SUM sum_v[FD];
    [[unroll]] for (uint i = 0; i < FD; i++) {
        sum_k[i] = COOP_SUM(0.0);
        sum_v[i] = COOP_SUM(0.0);
    }
    const uint key = block + warp * MM + own_line;
    const int segment = SEGMENTS ? segments_k.at[batch * keys + min(key, keys - 1)] : 0;
    int first, last, start, stop, inner_first, inner_last, unused;      // inner_first .. inner_last see all keys of the block
    query_range(int(min(key, keys - 1)), int(min(key, keys - 1)), offset, int(queries), first, last);
    query_range(int(block), int(end_key - 1), offset, int(queries), start, stop);
    query_range(int(block), int(block), offset, int(queries), unused, inner_last);
    query_range(int(end_key - 1), int(end_key - 1), offset, int(queries), inner_first, unused);
    start -= start % int(N);
    const uint region = TILES + 2 * warp * REGION, line = region + own_line * SCORE_LINE, half_line = region + own_line * HALF_LINE;

    for (uint g = 0; g < GROUP; g++) {
        const uint query_head = head * GROUP + g;
        const uint64_t Q = q + 2ul * (uint64_t(batch) * q_stride.x + query_head * q_stride.z);
        const uint64_t D = dout + 2ul * (uint64_t(batch) * queries * heads + query_head) * WIDTH;
        const bool q_aligned = multiple_of_8(Q, q_stride.y, 0);
        for (int i0 = start; i0 <= stop; i0 += int(N)) {
            barrier();
            LOAD_LINES(0, N, Q, q_stride.y, uint(i0), queries, q_aligned)
            LOAD_LINES(N * LINE, N, D, heads * WIDTH, uint(i0), queries, true)
            for (uint i = gl_LocalInvocationID.x; i < N; i += ALL) {
                const uint t = min(uint(i0) + i, queries - 1), stat = (batch * heads + query_head) * queries + t;
                query_lse[i / 4][i % 4] = lse.at[stat] * LOG2_E;
                query_delta[i / 4][i % 4] = delta.at[stat];
                if (SEGMENTS) query_segment[i / 4][i % 4] = segments_q.at[batch * queries + t];
            }
            barrier();

            [[unroll]] for (uint j = 0; j < FN; j++) {
                COOP_SUM score = COOP_SUM(0.0);
                COOP_SUM dscore = COOP_SUM(0.0);
                [[unroll]] for (uint i = 0; i < FK; i++) {
                    COOP_B column;
                    coopMatLoad(column, memory, j * MN * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutColumnMajor);
                    score = coopMatMulAdd(key_rows[i], column, score);
                    coopMatLoad(column, memory, (N + j * MN) * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutColumnMajor);
                    dscore = coopMatMulAdd(value_rows[i], column, dscore);
                }
                coopMatStore(score, memory, region + j * MN / 4, SCORE_LINE, gl_CooperativeMatrixLayoutRowMajor);
                coopMatStore(dscore, memory, region + REGION + j * MN / 4, SCORE_LINE, gl_CooperativeMatrixLayoutRowMajor);
            }
            SYNC
            const bool edge = SEGMENTS || i0 < inner_first || i0 + int(N) - 1 > inner_last;
            uvec2 p_halves[QUADS], ds_halves[QUADS];
            [[unroll]] for (uint i = 0; i < QUADS; i++) {
                const uint quad = LPR * i + side;
                const vec4 s = uintBitsToFloat(memory[line + quad]) * (SCALE * LOG2_E) - query_lse[quad];
                vec4 p, ds = uintBitsToFloat(memory[line + REGION + quad]) - query_delta[quad];
                [[unroll]] for (uint e = 0; e < 4; e++) p[e] = power_of_two(s[e]);
                if (edge) {
                    const ivec4 there = SEGMENTS ? query_segment[quad] : ivec4(0);
                    [[unroll]] for (uint e = 0; e < 4; e++) {
                        const int position = i0 + int(4 * quad + e);
                        if (position < first || position > last || there[e] != segment) p[e] = 0.0;
                    }
                }
                p_halves[i] = narrow_fast(p);
                ds_halves[i] = narrow_fast(p * ds);
            }
            SYNC
            [[unroll]] for (uint i = 0; i < QUADS; i++) {
                const uint at = 4 * (LPR * i + side);
                memory[half_line + at / 8][at % 8 / 2] = p_halves[i].x;
                memory[half_line + at / 8][at % 8 / 2 + 1] = p_halves[i].y;
                memory[half_line + REGION + at / 8][at % 8 / 2] = ds_halves[i].x;
                memory[half_line + REGION + at / 8][at % 8 / 2 + 1] = ds_halves[i].y;
            }
            SYNC
            [[unroll]] for (uint i = 0; i < FNK; i++) {
                COOP_A p;
                COOP_A ds;
                coopMatLoad(p, memory, region + i * MK / 8, HALF_LINE, gl_CooperativeMatrixLayoutRowMajor);
                coopMatLoad(ds, memory, region + REGION + i * MK / 8, HALF_LINE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < FD; j++) {
                    COOP_B column;
                    coopMatLoad(column, memory, (N + i * MK) * LINE + j * MN / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);
                    sum_v[j] = coopMatMulAdd(p, column, sum_v[j]);
                    coopMatLoad(column, memory, i * MK * LINE + j * MN / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);
                    sum_k[j] = coopMatMulAdd(ds, column, sum_k[j]);
                }
            }
            SYNC
        }
    }
    STORE_ROWS(sum_k, dk, SCALE, key, keys, key_heads)
    STORE_ROWS(sum_v, dv, 1.0, key, keys, key_heads)
}
