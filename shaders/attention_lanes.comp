#version 460
// Attention forward for devices without fast shared memory: a lane owns ROWS rows, keys and values come one element a lane
// and are broadcast. Online softmax over KEYS keys at a time; the scores are never stored.
//     out[row] = sum_j p_j v[j],  p = softmax(SCALE q k^T over the keys that the row sees),  lse[row] = log sum exp
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] with strides of batch, time and head (last stride 1);
// out [B,T,Hq,VALUE_WIDTH] and lse [B,Hq,T] contiguous. Workgroup = subgroup = LANES; grid: row blocks, key heads, batch.
// Limits: fewer than 2^32 elements in each operand. NumPy twin: attention_reference.
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
    Floats q, k, v;
    Floats outcome, lse;
    Ints segments_q, segments_k;
    Uints seed;
    Ints offsets;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const uint PARTS = (WIDTH + LANES - 1) / LANES, VALUE_PARTS = (VALUE_WIDTH + LANES - 1) / LANES;

void main() {
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, block = gl_WorkGroupID.x * LANES * ROWS, end_row = min(block + LANES * ROWS, rows);
    const int offset = uint64_t(offsets) != 0 ? offsets.at[batch] : int(keys) - int(queries);
    const uvec2 key = DROP_BELOW > 0 ? uvec2(seed.at[0], seed.at[1]) : uvec2(0);

    float query[ROWS][WIDTH], sum[ROWS][VALUE_WIDTH], top[ROWS], total[ROWS];
    int first[ROWS], last[ROWS], segment[ROWS];
    uint score_row[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint row = min(block + r * LANES + lane, rows - 1), t = row / GROUP, h = head * GROUP + row % GROUP;
        const uint at = batch * q_stride.x + t * q_stride.y + h * q_stride.z;
        [[unroll]] for (uint d = 0; d < WIDTH; d++) query[r][d] = q.at[at + d] * SCALE;
        [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) sum[r][d] = 0.0;
        key_range(int(t), offset, int(keys), first[r], last[r]);
        segment[r] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        score_row[r] = (batch * heads + h) * queries + t;
        top[r] = NEGLIGIBLE;
        total[r] = 0.0;
    }

    int start, stop, unused;
    key_range(int(block / GROUP), offset, int(keys), start, unused);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), unused, stop);
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    for (int j = start & ~int(KEYS - 1); j <= stop; j += int(KEYS)) {
        float score[ROWS][KEYS];
        [[unroll]] for (uint c = 0; c < KEYS; c++) {
            const uint at = k_base + uint(min(j + int(c), int(keys) - 1)) * k_stride.y;
            float part[PARTS];
            [[unroll]] for (uint i = 0; i < PARTS; i++) part[i] = k.at[at + min(i * LANES + lane, WIDTH - 1)];
            [[unroll]] for (uint r = 0; r < ROWS; r++) score[r][c] = 0.0;
            [[unroll]] for (uint d = 0; d < WIDTH; d++) {
                const float x = subgroupBroadcast(part[d / LANES], d % LANES);
                [[unroll]] for (uint r = 0; r < ROWS; r++) score[r][c] = fma(query[r][d], x, score[r][c]);
            }
        }
        int segment_k = SEGMENTS ? segments_k.at[batch * keys + min(uint(j) + min(lane, KEYS - 1), keys - 1)] : 0;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            float highest = top[r];
            bool seen[KEYS];
            [[unroll]] for (uint c = 0; c < KEYS; c++) {
                seen[c] = j + int(c) >= first[r] && j + int(c) <= last[r];
                if (SEGMENTS) seen[c] = seen[c] && subgroupBroadcast(segment_k, c) == segment[r];
                score[r][c] = seen[c] ? score[r][c] : NEGLIGIBLE;
                highest = max(highest, score[r][c]);
            }
            const float shrink = exp_(top[r] - highest);
            top[r] = highest;
            total[r] *= shrink;
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) sum[r][d] *= shrink;
            [[unroll]] for (uint c = 0; c < KEYS; c++) {
                score[r][c] = seen[c] ? exp_(score[r][c] - highest) : 0.0;
                total[r] += score[r][c];
            }
            if (DROP_BELOW > 0) {
                const uvec4 bits = random_quad(score_row[r], keys, uint(j) / 4, stream, key);
                [[unroll]] for (uint c = 0; c < KEYS; c++) score[r][c] = bits[c] >= DROP_BELOW ? score[r][c] * KEEP_SCALE : 0.0;
            }
        }
        [[unroll]] for (uint c = 0; c < KEYS; c++) {
            const uint at = v_base + uint(min(j + int(c), int(keys) - 1)) * v_stride.y;
            float part[VALUE_PARTS];
            [[unroll]] for (uint i = 0; i < VALUE_PARTS; i++) part[i] = v.at[at + min(i * LANES + lane, VALUE_WIDTH - 1)];
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) {
                const float x = subgroupBroadcast(part[d / LANES], d % LANES);
                [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r][d] = fma(score[r][c], x, sum[r][d]);
            }
        }
    }

    [[unroll]] for (uint r = 0; r < ROWS; r++) {
        const uint row = block + r * LANES + lane;
        if (row < rows) {
            const uint h = head * GROUP + row % GROUP, at = ((batch * queries + row / GROUP) * heads + h) * VALUE_WIDTH;
            const float inverse = total[r] != 0.0 ? 1.0 / total[r] : 0.0;
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) outcome.at[at + d] = sum[r][d] * inverse;
            lse.at[score_row[r]] = total[r] != 0.0 ? top[r] + log_(total[r]) : NEGLIGIBLE;
        }
    }
}
