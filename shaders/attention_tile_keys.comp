#version 460
// Gradients of the keys and values of an attention, for GPUs: a workgroup owns M keys and goes through the rows of all query heads of
// the group, N at a time, in a fixed order.
//     p_i = exp(bend(SCALE q_i k) - lse_i),  dv = sum_i dropout(p_i) dout_i,
//     dk = SCALE sum_i bend'(SCALE q_i k) p_i (dropout(dout_i v) - delta_i) q_i
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] strided (last stride 1); dout, dk and dv contiguous; stats as
// attention_delta.comp writes them. Grid: key blocks, key heads, batch. Limits: fewer than 2^32 elements in each operand.
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
    Floats dk, dv;
    Ints segments_q, segments_k;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const bool RESIDENT = CHUNKS == 1 && VALUE_CHUNKS == 1;  // keys and values stay in shared memory

shared vec4 key_tile[M * PITCH];
shared vec4 value_tile[RESIDENT ? M * PITCH : 1];
shared vec4 row_tile[N * PITCH];
shared vec4 weight[M * SCORE_PITCH];

#define KEY_VALID (block + line < keys)
#define K_PLACE (k_base + (block + line) * k_stride.y)
#define V_PLACE (v_base + (block + line) * v_stride.y)
#define ROW (row0 + line)
#define ROW_VALID (ROW < row_stop)
#define Q_PLACE (q_base + ROW / GROUP * q_stride.y + ROW % GROUP * q_stride.z)
#define OUT_PLACE (((batch * queries + ROW / GROUP) * heads + head * GROUP + ROW % GROUP) * VALUE_WIDTH)

void main() {
    const uint across = gl_LocalInvocationID.x % ACROSS, down = gl_LocalInvocationID.x / ACROSS;
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint block = gl_WorkGroupID.x * M, all_rows = gl_NumWorkGroups.z * heads * queries;
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 seed = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);

    float dkey[LINES][CHUNKS * EACH], dvalue[LINES][VALUE_CHUNKS * EACH];
    int segment[LINES];
    [[unroll]] for (uint i = 0; i < LINES; i++) {
        [[unroll]] for (uint d = 0; d < CHUNKS * EACH; d++) dkey[i][d] = 0.0;
        [[unroll]] for (uint d = 0; d < VALUE_CHUNKS * EACH; d++) dvalue[i][d] = 0.0;
        segment[i] = SEGMENTS ? segments_k.at[batch * keys + min(block + down + DOWN * i, keys - 1)] : 0;
    }

    int start, stop;
    query_range(int(block), int(min(block + M, keys)) - 1, offset, int(queries), start, stop);
    const uint row_start = uint(start) * GROUP, row_stop = start > stop ? row_start : uint(stop + 1) * GROUP;
    const uint q_base = batch * q_stride.x + head * GROUP * q_stride.z;
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    for (uint row0 = row_start; row0 < row_stop; row0 += N) {
        float score[LINES][COLUMNS], dscore[LINES][COLUMNS];
        [[unroll]] for (uint i = 0; i < LINES; i++) [[unroll]] for (uint j = 0; j < COLUMNS; j++) score[i][j] = dscore[i][j] = 0.0;
        for (uint c = 0; c < CHUNKS; c++) {
            barrier();
            if (RESIDENT) {
                if (row0 == row_start) {
                    LOAD_TILE(key_tile, M, k, 0, WIDTH, KEY_VALID, K_PLACE)
                    LOAD_TILE(value_tile, M, v, 0, VALUE_WIDTH, KEY_VALID, V_PLACE)
                }
            } else {
                LOAD_TILE(key_tile, M, k, c, WIDTH, KEY_VALID, K_PLACE)
            }
            LOAD_TILE(row_tile, N, q, c, WIDTH, ROW_VALID, Q_PLACE)
            barrier();
            DOT_TILE(score, key_tile, row_tile)
        }
        for (uint c = 0; c < VALUE_CHUNKS; c++) {
            barrier();
            if (!RESIDENT) LOAD_TILE(key_tile, M, v, c, VALUE_WIDTH, KEY_VALID, V_PLACE)
            LOAD_TILE(row_tile, N, dout, c, VALUE_WIDTH, ROW_VALID, OUT_PLACE)
            barrier();
            if (RESIDENT) {
                DOT_TILE(dscore, value_tile, row_tile)
            } else {
                DOT_TILE(dscore, key_tile, row_tile)
            }
        }
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) {
            const uint line = across + ACROSS * j, row = min(ROW, row_stop - 1), t = row / GROUP;
            const uint score_row = (batch * heads + head * GROUP + row % GROUP) * queries + t;
            const float lse = stats.at[score_row], delta = stats.at[all_rows + score_row], whole = EXACT ? stats.at[wholes(all_rows) + score_row] : 1.0;
            const int segment_q = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
            const float slope = SLOPES ? slopes.at[head * GROUP + row % GROUP] : 0.0;
            int first, last;
            key_range(int(t), offset, int(keys), first, last);
            last = ROW_VALID ? last : -1;
            [[unroll]] for (uint i = 0; i < LINES; i++) {
                const int position = int(block + down + DOWN * i);
                const bool seen = position >= first && position <= last && segment_q == segment[i];
                float change;
                const float bent_score = bent() ? bend(score[i][j] * SCALE, slope, int(t) + offset - position, change) : score[i][j];
                const float probability = seen ? probability_of(bent_score, bent() ? 1.0 : SCALE, lse) * whole : 0.0;
                const float kept = DROP_BELOW > 0 ? keep_factor(score_row, keys, uint(position), stream, seed) : 1.0;
                score[i][j] = probability * kept;
                dscore[i][j] = probability * (dscore[i][j] * kept - delta);
                if (SOFTCAP > 0.0) dscore[i][j] *= change;
            }
        }
        STORE_SCORES(weight, score)
        barrier();
        [[unroll]] for (uint c = 0; c < VALUE_CHUNKS; c++) {
            if (VALUE_CHUNKS > 1) {                    // else the rows of dout are there still
                barrier();
                LOAD_TILE(row_tile, N, dout, c, VALUE_WIDTH, ROW_VALID, OUT_PLACE)
                barrier();
            }
            ADD_TILE(dvalue, c * EACH, weight, row_tile)
        }
        barrier();
        STORE_SCORES(weight, dscore)
        [[unroll]] for (uint c = 0; c < CHUNKS; c++) {
            if (c > 0) barrier();
            LOAD_TILE(row_tile, N, q, c, WIDTH, ROW_VALID, Q_PLACE)
            barrier();
            ADD_TILE(dkey, c * EACH, weight, row_tile)
        }
    }
    STORE_SUMS(dkey, CHUNKS, dk, WIDTH, KEY_VALID, ((batch * keys + block + line) * gl_NumWorkGroups.y + head) * WIDTH, SCALE)
    STORE_SUMS(dvalue, VALUE_CHUNKS, dv, VALUE_WIDTH, KEY_VALID, ((batch * keys + block + line) * gl_NumWorkGroups.y + head) * VALUE_WIDTH, 1.0)
}
