#version 460
// Attention forward on matrix units: a workgroup owns M queries of one head and goes through N keys at a time, online softmax in fp32.
//     out[row] = sum_j p_j v[j],  p = softmax(SCALE q k^T over the keys that the row sees),  lse[row] = log sum exp
// Layouts: q [B,T,Hq,WIDTH], k and v [B,S,Hk,WIDTH] halves with strides of batch, time and head (last stride 1), out [B,T,Hq,WIDTH] halves
// and lse [B,Hq,T] f32 contiguous. p is rounded to halves for its product with v. Grid: query blocks, query heads, batch.
// Limits: WIDTH a multiple of MN and MK; no dropout, soft cap or slopes. NumPy twin: attention_reference, rounded.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
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
    uint64_t q, k, v, outcome;
    Floats lse;
    Ints segments_q, segments_k, offsets;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys;
};

const uint TILES = 2 * N > M ? 2 * N * LINE : M * LINE;
shared uvec4 memory[TILES + WARPS * REGION];
shared ivec4 key_segment[N / 4];

float join(const float x, const bool largest) {
    if (LPR == 1) return x;
    const float other = subgroupShuffleXor(x, 1);
    return largest ? max(x, other) : x + other;
}

void main() {
    const uint warp = gl_SubgroupID, lane = gl_SubgroupInvocationID, side = lane % LPR, own_line = lane / LPR;
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y, key_head = head / GROUP;
    const uint block = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * M, end_row = min(block + M, queries);       // longest first
    const int offset = OFFSETS ? offsets.at[batch] : int(keys) - int(queries);
    const uint64_t Q = q + 2ul * (uint64_t(batch) * q_stride.x + head * q_stride.z);
    const uint64_t K = k + 2ul * (uint64_t(batch) * k_stride.x + key_head * k_stride.z);
    const uint64_t V = v + 2ul * (uint64_t(batch) * v_stride.x + key_head * v_stride.z);
    const bool q_aligned = multiple_of_8(Q, q_stride.y, 0), kv_aligned = multiple_of_8(K, k_stride.y, v_stride.y) && multiple_of_8(V, 0, 0);

    LOAD_LINES(0, M, Q, q_stride.y, block, queries, q_aligned)
    barrier();
    COOP_A rows[RB * FK];
    [[unroll]] for (uint b = 0; b < RB; b++)
        [[unroll]] for (uint i = 0; i < FK; i++)
            coopMatLoad(rows[b * FK + i], memory, (warp * RB + b) * MM * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);

    COOP_SUM sum[RB * FD];
    [[unroll]] for (uint i = 0; i < RB * FD; i++) sum[i] = COOP_SUM(0.0);
    float top[RB], total[RB];
    int first[RB], last[RB], segment[RB];
    [[unroll]] for (uint b = 0; b < RB; b++) {
        const uint t = min(block + (warp * RB + b) * MM + own_line, queries - 1);
        key_range(int(t), offset, int(keys), first[b], last[b]);
        segment[b] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        top[b] = NEGLIGIBLE;
        total[b] = 0.0;
    }
    int start, stop, inner_first, inner_last;                  // all rows see inner_first .. inner_last
    key_range(int(block), offset, int(keys), start, inner_last);
    key_range(int(end_row - 1), offset, int(keys), inner_first, stop);
    start -= start % int(N);
    const uint region = TILES + warp * REGION, line = region + own_line * SCORE_LINE, half_line = region + own_line * HALF_LINE;
    const uint scale_tile = region + MM * HALF_LINE;

    for (int j0 = start; j0 <= stop; j0 += int(N)) {
        barrier();
        LOAD_LINES(0, N, K, k_stride.y, uint(j0), keys, kv_aligned)
        LOAD_LINES(N * LINE, N, V, v_stride.y, uint(j0), keys, kv_aligned)
        if (SEGMENTS)
            for (uint i = gl_LocalInvocationID.x; i < N; i += ALL)
                key_segment[i / 4][i % 4] = segments_k.at[batch * keys + min(uint(j0) + i, keys - 1)];
        barrier();

        COOP_SUM score[RB * FN];
        [[unroll]] for (uint i = 0; i < RB * FN; i++) score[i] = COOP_SUM(0.0);
        [[unroll]] for (uint i = 0; i < FK; i++)
            [[unroll]] for (uint j = 0; j < FN; j++) {
                COOP_B column;
                coopMatLoad(column, memory, j * MN * LINE + i * MK / 8, LINE, gl_CooperativeMatrixLayoutColumnMajor);
                [[unroll]] for (uint b = 0; b < RB; b++) score[b * FN + j] = coopMatMulAdd(rows[b * FK + i], column, score[b * FN + j]);
            }

        COOP_A weight[RB * FNK];
        [[unroll]] for (uint b = 0; b < RB; b++) {
            [[unroll]] for (uint j = 0; j < FN; j++)
                coopMatStore(score[b * FN + j], memory, region + j * MN / 4, SCORE_LINE, gl_CooperativeMatrixLayoutRowMajor);
            SYNC
            vec4 mine[QUADS], most = vec4(top[b]);             // in units of log 2
            [[unroll]] for (uint i = 0; i < QUADS; i++) mine[i] = uintBitsToFloat(memory[line + LPR * i + side]) * (SCALE * LOG2_E);
            if (SEGMENTS || j0 < inner_first || j0 + int(N) - 1 > inner_last)
                [[unroll]] for (uint i = 0; i < QUADS; i++) {
                    const uint quad = LPR * i + side;
                    const ivec4 there = SEGMENTS ? key_segment[quad] : ivec4(0);
                    [[unroll]] for (uint e = 0; e < 4; e++) {
                        const int position = j0 + int(4 * quad + e);
                        if (position < first[b] || position > last[b] || there[e] != segment[b]) mine[i][e] = NEGLIGIBLE;
                    }
                }
            [[unroll]] for (uint i = 0; i < QUADS; i++) most = max(most, mine[i]);
            const float highest = join(max(max(most.x, most.y), max(most.z, most.w)), true), shrink = power_of_two(top[b] - highest);
            const float base = highest > NEGLIGIBLE ? highest : 0.0;           // a row that sees nothing gets zeros: 2^NEGLIGIBLE
            vec4 more = vec4(0.0);
            top[b] = highest;
            SYNC
            [[unroll]] for (uint i = 0; i < QUADS; i++) {
                vec4 p;
                [[unroll]] for (uint e = 0; e < 4; e++) p[e] = power_of_two(mine[i][e] - base);
                more += p;
                const uvec2 halves = narrow_fast(p);
                const uint at = 4 * (LPR * i + side);
                memory[half_line + at / 8][at % 8 / 2] = halves.x;
                memory[half_line + at / 8][at % 8 / 2 + 1] = halves.y;
            }
            total[b] = total[b] * shrink + join((more.x + more.y) + (more.z + more.w), false);
            const bool same = subgroupAll(shrink == 1.0);
            if (!same)
                [[unroll]] for (uint i = 0; i < MN / 4 / LPR; i++)
                    memory[scale_tile + own_line * BLOCK_LINE + LPR * i + side] = floatBitsToUint(vec4(shrink));
            SYNC
            [[unroll]] for (uint i = 0; i < FNK; i++)
                coopMatLoad(weight[b * FNK + i], memory, region + i * MK / 8, HALF_LINE, gl_CooperativeMatrixLayoutRowMajor);
            if (!same) {
                COOP_SUM factor;
                coopMatLoad(factor, memory, scale_tile, BLOCK_LINE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0; j < FD; j++) sum[b * FD + j] = sum[b * FD + j] * factor;
            }
            SYNC
        }
        [[unroll]] for (uint i = 0; i < FNK; i++)
            [[unroll]] for (uint j = 0; j < FD; j++) {
                COOP_B column;
                coopMatLoad(column, memory, (N + i * MK) * LINE + j * MN / 8, LINE, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint b = 0; b < RB; b++) sum[b * FD + j] = coopMatMulAdd(weight[b * FNK + i], column, sum[b * FD + j]);
            }
    }

    COOP_SUM part[FD];
    [[unroll]] for (uint b = 0; b < RB; b++) {
        const uint t = block + (warp * RB + b) * MM + own_line;
        const bool nothing = !(top[b] > NEGLIGIBLE) && !isnan(total[b]);
        const float inverse = nothing ? 0.0 : 1.0 / total[b];
        if (t < queries && side == 0) lse.at[(batch * heads + head) * queries + t] = nothing ? NEGLIGIBLE : top[b] * (1.0 / LOG2_E) + log_(total[b]);
        [[unroll]] for (uint j = 0; j < FD; j++) part[j] = sum[b * FD + j];
        STORE_ROWS(part, outcome, inverse, t, queries, heads)
    }
}
