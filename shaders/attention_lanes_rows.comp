#version 460
// Gradient of the queries of an attention, for devices without fast shared memory: a lane owns ROWS rows.
//     p_j = exp(SCALE q k_j - lse),  dp_j = dropout(dout v_j),  dq = SCALE sum_j p_j (dp_j - delta) k_j
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] strided (last stride 1); dout and dq contiguous; stats as
// attention_delta.comp writes them. Workgroup = subgroup = LANES; grid: row blocks, key heads, batch.
// Limits: fewer than 2^32 elements in each operand. NumPy twin: attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 11) const uint ROWS = 4;
const uint KEYS = 4;                                  // one block of random bits

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v, dout, stats;
    Floats dq;
    Ints segments_q, segments_k;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const uint PARTS = (WIDTH + LANES - 1) / LANES, VALUE_PARTS = (VALUE_WIDTH + LANES - 1) / LANES;

void main() {
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, block = gl_WorkGroupID.x * LANES * ROWS, end_row = min(block + LANES * ROWS, rows);
    const uint all_rows = gl_NumWorkGroups.z * heads * queries;
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 key = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);

    float query[ROWS][WIDTH], sum[ROWS][WIDTH], gradient[ROWS][VALUE_WIDTH], lse[ROWS], delta[ROWS];
    int first[ROWS], last[ROWS], segment[ROWS];
    uint score_row[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint row = min(block + r * LANES + lane, rows - 1), t = row / GROUP, h = head * GROUP + row % GROUP;
        const uint at = batch * q_stride.x + t * q_stride.y + h * q_stride.z, from = ((batch * queries + t) * heads + h) * VALUE_WIDTH;
        [[unroll]] for (uint d = 0; d < WIDTH; d++) {
            query[r][d] = q.at[at + d] * SCALE;
            sum[r][d] = 0.0;
        }
        [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) gradient[r][d] = dout.at[from + d];
        key_range(int(t), offset, int(keys), first[r], last[r]);
        segment[r] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        score_row[r] = (batch * heads + h) * queries + t;
        lse[r] = stats.at[score_row[r]];
        delta[r] = stats.at[all_rows + score_row[r]];
    }

    int start, stop, unused;
    key_range(int(block / GROUP), offset, int(keys), start, unused);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), unused, stop);
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    for (int j = start & ~int(KEYS - 1); j <= stop; j += int(KEYS)) {
        float score[ROWS][KEYS], dscore[ROWS][KEYS], part[KEYS][PARTS];
        [[unroll]] for (uint c = 0; c < KEYS; c++) {
            const uint position = uint(min(j + int(c), int(keys) - 1)), at = k_base + position * k_stride.y, from = v_base + position * v_stride.y;
            float value[VALUE_PARTS];
            [[unroll]] for (uint i = 0; i < PARTS; i++) part[c][i] = k.at[at + min(i * LANES + lane, WIDTH - 1)];
            [[unroll]] for (uint i = 0; i < VALUE_PARTS; i++) value[i] = v.at[from + min(i * LANES + lane, VALUE_WIDTH - 1)];
            [[unroll]] for (uint r = 0; r < ROWS; r++) score[r][c] = dscore[r][c] = 0.0;
            [[unroll]] for (uint d = 0; d < WIDTH; d++) {
                const float x = subgroupBroadcast(part[c][d / LANES], d % LANES);
                [[unroll]] for (uint r = 0; r < ROWS; r++) score[r][c] = fma(query[r][d], x, score[r][c]);
            }
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) {
                const float x = subgroupBroadcast(value[d / LANES], d % LANES);
                [[unroll]] for (uint r = 0; r < ROWS; r++) dscore[r][c] = fma(gradient[r][d], x, dscore[r][c]);
            }
        }
        int segment_k = SEGMENTS ? segments_k.at[batch * keys + min(uint(j) + min(lane, KEYS - 1), keys - 1)] : 0;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            if (DROP_BELOW > 0) {
                const uvec4 bits = random_quad(score_row[r], keys, uint(j) / 4, stream, key);
                [[unroll]] for (uint c = 0; c < KEYS; c++) dscore[r][c] = bits[c] >= DROP_BELOW ? dscore[r][c] * KEEP_SCALE : 0.0;
            }
            [[unroll]] for (uint c = 0; c < KEYS; c++) {
                bool seen = j + int(c) >= first[r] && j + int(c) <= last[r];
                if (SEGMENTS) seen = seen && subgroupBroadcast(segment_k, c) == segment[r];
                const float probability = seen ? exp_(score[r][c] - lse[r]) : 0.0;
                dscore[r][c] = probability * (dscore[r][c] - delta[r]);
            }
        }
        [[unroll]] for (uint c = 0; c < KEYS; c++)
            [[unroll]] for (uint d = 0; d < WIDTH; d++) {
                const float x = subgroupBroadcast(part[c][d / LANES], d % LANES);
                [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r][d] = fma(dscore[r][c], x, sum[r][d]);
            }
    }

    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint row = block + r * LANES + lane;
        if (row < rows) {
            const uint at = ((batch * queries + row / GROUP) * heads + head * GROUP + row % GROUP) * WIDTH;
            [[unroll]] for (uint d = 0; d < WIDTH; d++) dq.at[at + d] = sum[r][d] * SCALE;
        }
    }
}
