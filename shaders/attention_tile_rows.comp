#version 460
// Gradient of the queries of an attention, for GPUs: a workgroup owns M rows and goes through N keys at a time.
//     p_j = exp(bend(SCALE q k_j) - lse),  dp_j = dropout(dout v_j),  dq = SCALE sum_j bend'(SCALE q k_j) p_j (dp_j - delta) k_j,
//     delta += sum_j p_j (dp_j - delta), dq -= SCALE c sum_j p_j (dp_j - delta) with c the mean of four keys: both take the rounding of
//     delta out of gradients, as in attention_lanes_rows.comp
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] strided (last stride 1); dout and dq contiguous; stats as
// attention_delta.comp writes them. Grid: row blocks, key heads, batch. Limits: fewer than 2^32 elements in each operand.
// NumPy twin: attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"
#include "attention_tile.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v, dout, stats;
    Floats dq;
    Ints segments_q, segments_k;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const bool RESIDENT = CHUNKS == 1 && VALUE_CHUNKS == 1;  // rows stay in shared memory

shared vec4 row_tile[M * PITCH];
shared vec4 dout_tile[RESIDENT ? M * PITCH : 1];
shared vec4 key_tile[N * PITCH];
shared vec4 weight[M * SCORE_PITCH];

// value[i] = its sum over the invocations of a line.
#define ADD_ACROSS(value) \
    barrier(); \
    [[unroll]] for (uint i = 0; i < LINES; i++) weight[(down + DOWN * i) * SCORE_PITCH + across / 4][across % 4] = value[i]; \
    barrier(); \
    [[unroll]] for (uint i = 0; i < LINES; i++) { \
        vec4 four = vec4(0.0); \
        [[unroll]] for (uint quad = 0; quad < ACROSS / 4; quad++) four += weight[(down + DOWN * i) * SCORE_PITCH + quad]; \
        value[i] = (four.x + four.y) + (four.z + four.w); \
    }

#define ROW (block + line)
#define Q_PLACE (q_base + ROW / GROUP * q_stride.y + ROW % GROUP * q_stride.z)
#define OUT_ROW ((batch * queries + ROW / GROUP) * heads + head * GROUP + ROW % GROUP)
#define KEY_VALID (uint(j0) + line < keys)

void main() {
    const uint across = gl_LocalInvocationID.x % ACROSS, down = gl_LocalInvocationID.x / ACROSS;
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, all_rows = gl_NumWorkGroups.z * heads * queries;
    const uint block = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * M, end_row = min(block + M, rows);   // longest first
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 key = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);

    float sum[LINES][CHUNKS * EACH], lse[LINES], delta[LINES], left[LINES], mass[LINES], slope[LINES];
    int first[LINES], last[LINES], segment[LINES], spot[LINES];
    uint score_row[LINES];
    [[unroll]] for (uint i = 0; i < LINES; i++) {
        const uint row = min(block + down + DOWN * i, rows - 1), t = row / GROUP;
        [[unroll]] for (uint d = 0; d < CHUNKS * EACH; d++) sum[i][d] = 0.0;
        key_range(int(t), offset, int(keys), first[i], last[i]);
        segment[i] = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
        score_row[i] = (batch * heads + head * GROUP + row % GROUP) * queries + t;
        spot[i] = int(t) + offset;
        slope[i] = SLOPES ? slopes.at[head * GROUP + row % GROUP] : 0.0;
        lse[i] = stats.at[score_row[i]];
        delta[i] = stats.at[all_rows + score_row[i]];
        left[i] = mass[i] = 0.0;
    }

    int start, stop, unused;
    key_range(int(block / GROUP), offset, int(keys), start, unused);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), unused, stop);
    start -= start % int(N);
    const uint q_base = batch * q_stride.x + head * GROUP * q_stride.z;
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    for (int j0 = start; j0 <= stop; j0 += int(N)) {
        float score[LINES][COLUMNS], dscore[LINES][COLUMNS];
        [[unroll]] for (uint i = 0; i < LINES; i++) [[unroll]] for (uint j = 0; j < COLUMNS; j++) score[i][j] = dscore[i][j] = 0.0;
        for (uint c = 0; c < VALUE_CHUNKS; c++) {
            barrier();
            if (RESIDENT) {
                if (j0 == start) {
                    LOAD_TILE(row_tile, M, q, 0, WIDTH, ROW < rows, Q_PLACE)
                    LOAD_TILE(dout_tile, M, dout, 0, VALUE_WIDTH, ROW < rows, OUT_ROW * VALUE_WIDTH)
                }
            } else {
                LOAD_TILE(row_tile, M, dout, c, VALUE_WIDTH, ROW < rows, OUT_ROW * VALUE_WIDTH)
            }
            LOAD_TILE(key_tile, N, v, c, VALUE_WIDTH, KEY_VALID, v_base + (uint(j0) + line) * v_stride.y)
            barrier();
            if (RESIDENT) {
                DOT_TILE(dscore, dout_tile, key_tile)
            } else {
                DOT_TILE(dscore, row_tile, key_tile)
            }
        }
        for (uint c = 0; c < CHUNKS; c++) {
            barrier();
            if (!RESIDENT) LOAD_TILE(row_tile, M, q, c, WIDTH, ROW < rows, Q_PLACE)
            LOAD_TILE(key_tile, N, k, c, WIDTH, KEY_VALID, k_base + (uint(j0) + line) * k_stride.y)
            barrier();
            DOT_TILE(score, row_tile, key_tile)
        }
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            const int position = j0 + int(across + ACROSS * j);
            const int segment_k = SEGMENTS ? segments_k.at[batch * keys + min(uint(position), keys - 1)] : 0;
            [[unroll]] for (uint i = 0; i < LINES; i++) {
                const bool seen = position >= first[i] && position <= last[i] && segment[i] == segment_k;
                float change;
                const float bent_score = bent() ? bend(score[i][j] * SCALE, slope[i], spot[i] - position, change) : score[i][j];
                const float probability = seen ? probability_of(bent_score, bent() ? 1.0 : SCALE, lse[i]) : 0.0;
                if (DROP_BELOW > 0) dscore[i][j] *= keep_factor(score_row[i], keys, uint(position), stream, key);
                dscore[i][j] = probability * (dscore[i][j] - delta[i]);
                if (EXACT) mass[i] += probability;
                left[i] += dscore[i][j];
                if (SOFTCAP > 0.0) dscore[i][j] *= change;
            }
        }
        STORE_SCORES(weight, dscore)
        barrier();
        [[unroll]] for (uint c = 0; c < CHUNKS; c++) {
            if (CHUNKS > 1) {                          // else the keys are there still
                barrier();
                LOAD_TILE(key_tile, N, k, c, WIDTH, KEY_VALID, k_base + (uint(j0) + line) * k_stride.y)
                barrier();
            }
            ADD_TILE(sum, c * EACH, weight, key_tile)
        }
    }
    ADD_ACROSS(left)
    if (EXACT) {
        ADD_ACROSS(mass)
    }
    float whole[LINES];
    [[unroll]] for (uint i = 0; i < LINES; i++) {
        whole[i] = EXACT ? whole_of(mass[i]) : 1.0;
        if (across == 0 && block + down + DOWN * i < rows) {
            stats.at[all_rows + score_row[i]] = fma(left[i], whole[i], delta[i]);
            if (EXACT) stats.at[wholes(all_rows) + score_row[i]] = whole[i];
        }
    }
    if (SOFTCAP == 0.0)
        [[unroll]] for (uint d = 0; d < CHUNKS * EACH; d++) {
            const uint channel = min(d / EACH * CHUNK + across + ACROSS * (d % EACH), WIDTH - 1);
            float centre = 0.0;
            [[unroll]] for (uint u = 0; u < 4; u++) centre += 0.25 * k.at[k_base + spread_key(start, stop, u, keys) * k_stride.y + channel];
            [[unroll]] for (uint i = 0; i < LINES; i++) sum[i][d] = fma(-left[i], centre, sum[i][d]);
        }
    STORE_SUMS(sum, CHUNKS, dq, WIDTH, ROW < rows, OUT_ROW * WIDTH, SCALE * whole[i])
}
