#version 460
// Attention forward for GPUs: a workgroup owns M rows of a key head's group and goes through N keys at a time, online softmax.
//     out[row] = sum_j p_j v[j],  p = softmax(bend(SCALE q k^T) over the keys that the row sees),  lse[row] = log sum exp
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] with strides of batch, time and head (last stride 1);
// out [splits,B,T,Hq,VALUE_WIDTH] and lse [splits,B,Hq,T] contiguous. Grid: row blocks times splits, key heads, batch; each split
// covers a part of the keys, and attention_combine.comp joins them. Limits: fewer than 2^32 elements in each operand.
// NumPy twin: attention_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"
#include "attention_tile.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v;
    Floats outcome, lse;
    Ints segments_q, segments_k;
    Uints seed;
    Ints offsets;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

shared vec4 row_tile[M * PITCH];
shared vec4 key_tile[N * PITCH];
shared vec4 weight[M * SCORE_PITCH];
shared vec4 partial[M * ACROSS / 4];

void main() {
    const uint across = gl_LocalInvocationID.x % ACROSS, down = gl_LocalInvocationID.x / ACROSS;
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, splits = gl_NumWorkGroups.x / ((rows + M - 1) / M), split = gl_WorkGroupID.x % splits;
    const uint block = (gl_NumWorkGroups.x / splits - 1 - gl_WorkGroupID.x / splits) * M, end_row = min(block + M, rows);   // longest first
    const int offset = uint64_t(offsets) != 0 ? offsets.at[batch] : int(keys) - int(queries);
    const uvec2 key = DROP_BELOW > 0 ? uvec2(seed.at[0], seed.at[1]) : uvec2(0);

    float sum[LINES][VALUE_CHUNKS * EACH], top[LINES], total[LINES], slope[LINES];
    int first[LINES], last[LINES], segment[LINES], spot[LINES];
    uint score_row[LINES];
    [[unroll]] for (uint i = 0; i < LINES; i++) {
        const uint row = min(block + down + DOWN * i, rows - 1), t = row / GROUP;
        [[unroll]] for (uint d = 0; d < VALUE_CHUNKS * EACH; d++) sum[i][d] = 0.0;
        key_range(int(t), offset, int(keys), first[i], last[i]);
        segment[i] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        score_row[i] = (batch * heads + head * GROUP + row % GROUP) * queries + t;
        spot[i] = int(t) + offset;
        slope[i] = SLOPES ? slopes.at[head * GROUP + row % GROUP] : 0.0;
        top[i] = NEGLIGIBLE;
        total[i] = 0.0;
    }

    int start, stop, unused;
    key_range(int(block / GROUP), offset, int(keys), start, unused);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), unused, stop);
    start -= start % int(N);
    const int tiles = max(stop - start, -int(N)) / int(N) + 1, each = (tiles + int(splits) - 1) / int(splits);
    const int tile_start = start + int(split) * each * int(N), tile_stop = min(tile_start + each * int(N) - 1, stop);
    const uint q_base = batch * q_stride.x + head * GROUP * q_stride.z;
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    for (int j0 = tile_start; j0 <= tile_stop; j0 += int(N)) {
        float score[LINES][COLUMNS];
        [[unroll]] for (uint i = 0; i < LINES; i++) [[unroll]] for (uint j = 0; j < COLUMNS; j++) score[i][j] = 0.0;
        for (uint c = 0; c < CHUNKS; c++) {
            barrier();
            if (CHUNKS > 1 || j0 == tile_start)
                LOAD_TILE(row_tile, M, q, c, WIDTH, block + line < rows,
                          q_base + (block + line) / GROUP * q_stride.y + (block + line) % GROUP * q_stride.z)
            LOAD_TILE(key_tile, N, k, c, WIDTH, uint(j0) + line < keys, k_base + (uint(j0) + line) * k_stride.y)
            barrier();
            DOT_TILE(score, row_tile, key_tile)
        }
        bool seen[LINES][COLUMNS];
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            const int position = j0 + int(across + ACROSS * j);
            const int segment_k = SEGMENTS ? segments_k.at[batch * keys + min(uint(position), keys - 1)] : 0;
            [[unroll]] for (uint i = 0; i < LINES; i++) {
                seen[i][j] = position >= first[i] && position <= last[i] && segment[i] == segment_k;
                float change;
                score[i][j] = seen[i][j] ? bend(score[i][j] * SCALE, slope[i], spot[i] - position, change) : NEGLIGIBLE;
            }
        }
        [[unroll]] for (uint i = 0; i < LINES; i++) {
            float highest = score[i][0];
            [[unroll]] for (uint j = 1; j < COLUMNS; j++) highest = max(highest, score[i][j]);
            partial[(down + DOWN * i) * (ACROSS / 4) + across / 4][across % 4] = highest;
        }
        barrier();
        [[unroll]] for (uint i = 0; i < LINES; i++) {
            vec4 four = partial[(down + DOWN * i) * (ACROSS / 4)];
            [[unroll]] for (uint a = 1; a < ACROSS / 4; a++) four = max(four, partial[(down + DOWN * i) * (ACROSS / 4) + a]);
            const float highest = max(top[i], max(max(four.x, four.y), max(four.z, four.w))), shrink = exp_(top[i] - highest);
            top[i] = highest;
            total[i] *= shrink;
            [[unroll]] for (uint d = 0; d < VALUE_CHUNKS * EACH; d++) sum[i][d] *= shrink;
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
                score[i][j] = seen[i][j] ? exp_(score[i][j] - highest) : 0.0;
                total[i] += score[i][j];
                if (DROP_BELOW > 0) score[i][j] *= keep_factor(score_row[i], keys, uint(j0) + across + ACROSS * j, stream, key);
            }
        }
        STORE_SCORES(weight, score)
        [[unroll]] for (uint c = 0; c < VALUE_CHUNKS; c++) {
            if (c > 0) barrier();
            LOAD_TILE(key_tile, N, v, c, VALUE_WIDTH, uint(j0) + line < keys, v_base + (uint(j0) + line) * v_stride.y)
            barrier();
            ADD_TILE(sum, c * EACH, weight, key_tile)
        }
    }

    barrier();
    [[unroll]] for (uint i = 0; i < LINES; i++) partial[(down + DOWN * i) * (ACROSS / 4) + across / 4][across % 4] = total[i];
    barrier();
    const uint all_rows = gl_NumWorkGroups.z * heads * queries;
    [[unroll]] for (uint i = 0; i < LINES; i++) {
        vec4 four = partial[(down + DOWN * i) * (ACROSS / 4)];
        [[unroll]] for (uint a = 1; a < ACROSS / 4; a++) four += partial[(down + DOWN * i) * (ACROSS / 4) + a];
        const float whole = (four.x + four.y) + (four.z + four.w);
        total[i] = whole != 0.0 ? 1.0 / whole : 0.0;
        if (across == 0 && block + down + DOWN * i < rows)
            lse.at[split * all_rows + score_row[i]] = whole != 0.0 ? top[i] + log_(whole) : NEGLIGIBLE;
    }
    STORE_SUMS(sum, VALUE_CHUNKS, outcome, VALUE_WIDTH, block + line < rows,
               (split * all_rows + (batch * queries + (block + line) / GROUP) * heads + head * GROUP + (block + line) % GROUP) * VALUE_WIDTH,
               total[i])
}
