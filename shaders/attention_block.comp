#version 460
// Attention forward for GPUs with large tiles: a workgroup owns M rows of a key head's group; its two sides go through N keys at a
// time each, every other tile, with an online softmax of their own, and are joined at the end.
//     out[row] = sum_j p_j v[j],  p = softmax(bend(SCALE q k^T) over the keys that the row sees),  lse[row] = log sum exp
// Layouts, splits, grid and limits as in attention_tile.comp; WIDTH and VALUE_WIDTH up to 128. NumPy twin: attention_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"
#include "attention_blocks.glsl"

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

// Queries, all channels; half a tile's weights for each side; two stages for each side. In the end the sums of side 1, its tops, totals.
const uint WEIGHTS = DEEP * LINE_M, STAGES = WEIGHTS + 2 * (N / 2) * LINE_M;
const uint STAGE = CHUNK * (LINE_N > LINE_D ? LINE_N : LINE_D), JOINED = EACH_M * GROUPS_D * SIDE + 2 * LINE_M;
const uint BEFORE = STAGES + 4 * STAGE;
shared vec4 memory[BEFORE > JOINED ? BEFORE : JOINED];
#include "attention_block_steps.glsl"

const uint LOADS = LOADS_B > LOADS_D ? LOADS_B : LOADS_D;
vec4 fetched[LOADS];

// Lines beyond the end repeat the last one: nothing that comes of them is used. Without branches around loads, none is waited for before
// it is needed.
uint from_keys[LOADS_B];

void locate_keys(uint id, uint base, uint first) {
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) from_keys[i] = base + min(first + (id + SIDE * i) / QUADS, keys - 1) * k_stride.y;
}

void fetch_keys(uint id, uint chunk, bool quads) {
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) fetched[i] = load_quad(k, from_keys[i], chunk * CHUNK + 4 * ((id + SIDE * i) % QUADS), WIDTH, quads);
}

void fetch_values(uint id, uint base, uint first, bool quads) {
    [[unroll]] for (uint i = 0; i < LOADS_D; i++) {
        const uint e = id + SIDE * i, key = min(first + e / LINE_D, keys - 1);
        fetched[i] = load_quad(v, base + key * v_stride.y, 4 * (e % LINE_D), VALUE_WIDTH, quads);
    }
}

void keep_keys(uint id, uint stage) {
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) keep_n(stage, (id + SIDE * i) / QUADS, (id + SIDE * i) % QUADS, fetched[i]);
}

void keep_values(uint id, uint stage) {
    [[unroll]] for (uint i = 0; i < LOADS_D; i++) memory[stage + id + SIDE * i] = fetched[i];
}

// Score row in [B, Hq, T] of an owned row, and its query.
uint score_row(uint row, uint batch, uint head, uint heads) { return (batch * heads + head * GROUP + row % GROUP) * queries + row / GROUP; }

void main() {
    const uint id = gl_LocalInvocationID.x % SIDE, side = side_of(gl_LocalInvocationID.x), x = x_of(id), y = y_of(id);
    const uint head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, splits = gl_NumWorkGroups.x / ((rows + M - 1) / M), split = gl_WorkGroupID.x % splits;
    const uint own = (gl_NumWorkGroups.x / splits - 1 - gl_WorkGroupID.x / splits) * M, end_row = min(own + M, rows);   // longest first
    const int offset = uint64_t(offsets) != 0 ? offsets.at[batch] : int(keys) - int(queries);
    const uvec2 random = DROP_BELOW > 0 ? uvec2(seed.at[0], seed.at[1]) : uvec2(0);
    const bool quads = ALIGNED && ((uint(uint64_t(q)) | uint(uint64_t(k)) | uint(uint64_t(v))) & 15) == 0;

    int start, stop, first_end, last_start;
    key_range(int(own / GROUP), offset, int(keys), start, last_start);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), first_end, stop);
    start -= start % int(N);
    const int tiles = max(stop - start, -int(N)) / int(N) + 1, each = (tiles + int(splits) - 1) / int(splits);
    const int tile_start = start + int(split) * each * int(N), tile_stop = min(tile_start + each * int(N) - 1, stop);
    const uint q_base = batch * q_stride.x + head * GROUP * q_stride.z;
    const uint k_base = batch * k_stride.x + head * k_stride.z, v_base = batch * v_stride.x + head * v_stride.z;
    const uint weights = WEIGHTS + side * (N / 2) * LINE_M;
    uint stage = STAGES + side * 2 * STAGE, other = stage + STAGE;

    for (uint e = gl_LocalInvocationID.x; e < M * LINE_D; e += 2 * SIDE) {
        const uint line = e / LINE_D, quad = e % LINE_D, row = own + line;
        const vec4 four = row < rows ? load_quad(q, q_base + row / GROUP * q_stride.y + row % GROUP * q_stride.z, 4 * quad, WIDTH, quads)
                                     : vec4(0.0);
        keep_m(0, line, quad, four);
    }
    vec4 top[GROUPS_M], total[GROUPS_M];
    [[unroll]] for (uint g = 0; g < GROUPS_M; g++) { top[g] = vec4(FLOOR); total[g] = vec4(0.0); }
    clear_sums();
    locate_keys(id, k_base, uint(tile_start) + side * N);
    fetch_keys(id, 0, quads);
    keep_keys(id, stage);
    barrier();

    for (int j0 = tile_start; j0 <= tile_stop; j0 += 2 * int(N)) {
        const uint mine = uint(j0) + side * N;
        clear_block();
        for (uint c = 0; c < CHUNKS; c++) {
            if (c + 1 < CHUNKS) fetch_keys(id, c + 1, quads);
            else fetch_values(id, v_base, mine, quads);
            multiply_channels(c * CHUNK * LINE_M, stage, x, y);
            if (c + 1 < CHUNKS) keep_keys(id, other);
            else keep_values(id, other);
            const uint swap = stage;
            stage = other;
            other = swap;
            barrier();
        }
        if (SOFTCAP > 0.0 || SLOPES)
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint row = min(own + 32 * g + 4 * y + i, rows - 1);
                const float slope = SLOPES ? slopes.at[head * GROUP + row % GROUP] : 0.0;
                const int spot = int(row / GROUP) + offset - int(mine + 4 * x);
                float change;
                [[unroll]] for (uint j = 0; j < 8; j++)
                    block[j][g][i] = bend(block[j][g][i] * SCALE, slope, spot - int(32 * (j / 4) + j % 4), change);
            }
        if (SEGMENTS || int(mine) < first_end || int(mine + N) - 1 > min(last_start, tile_stop)) {
            int segment[8];
            [[unroll]] for (uint j = 0; j < 8; j++)
                segment[j] = SEGMENTS ? segments_k.at[batch * keys + min(mine + 32 * (j / 4) + 4 * x + j % 4, keys - 1)] : 0;
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint t = min(own + 32 * g + 4 * y + i, rows - 1) / GROUP;
                const int needed = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
                int first, last;
                key_range(int(t), offset, int(keys), first, last);
                last = min(last, tile_stop);
                [[unroll]] for (uint j = 0; j < 8; j++) {
                    const int position = int(mine + 32 * (j / 4) + 4 * x + j % 4);
                    if (position < first || position > last || segment[j] != needed) block[j][g][i] = NEGLIGIBLE;
                }
            }
        }
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
            vec4 highest = block[0][g];
            [[unroll]] for (uint j = 1; j < 8; j++) highest = max(highest, block[j][g]);
            highest = max(top[g], across_max(highest) * factor());
            const vec4 shrink = exp_below(top[g] - highest);
            top[g] = highest;
            total[g] *= shrink;
            [[unroll]] for (uint i = 0; i < 4; i++) [[unroll]] for (uint e = 0; e < GROUPS_D; e++) {
                sum[4 * g + i][e] *= shrink[i];
                if (EXACT) lost[4 * g + i][e] *= shrink[i];
            }
            [[unroll]] for (uint j = 0; j < 8; j++) {
                block[j][g] = exp_below(fma(block[j][g], vec4(factor()), -highest));
                total[g] += block[j][g];
            }
        }
        if (DROP_BELOW > 0)
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint line = score_row(min(own + 32 * g + 4 * y + i, rows - 1), batch, head, heads);
                [[unroll]] for (uint h = 0; h < 2; h++) {
                    const vec4 keep = keep_quad(line, keys, (mine + 32 * h) / 4 + x, stream, random);
                    [[unroll]] for (uint u = 0; u < 4; u++) block[4 * h + u][g][i] *= keep[u];
                }
            }
        [[dont_unroll]] for (uint half_ = 0; half_ < N; half_ += N / 2) {
            [[unroll]] for (uint u = 0; u < 4; u++)
                [[unroll]] for (uint g = 0; g < GROUPS_M; g++)
                    memory[weights + place_w(4 * x + u, 8 * g + y)] = half_ == 0 ? block[u][g] : block[4 + u][g];
            barrier();
            for (uint n = 0; n < N / 2; n += CHUNK) {
                const bool more = half_ == 0 || n + CHUNK < N / 2;
                if (more) fetch_values(id, v_base, mine + half_ + n + CHUNK, quads);
                else {
                    locate_keys(id, k_base, mine + 2 * N);
                    fetch_keys(id, 0, quads);
                }
                multiply_lines(weights, n, stage, x, y);
                if (more) keep_values(id, other);
                else keep_keys(id, other);
                const uint swap = stage;
                stage = other;
                other = swap;
                barrier();
            }
        }
    }

    [[unroll]] for (uint g = 0; g < GROUPS_M; g++) total[g] = across_sum(total[g]);
    if (side == 1) {
        [[unroll]] for (uint i = 0; i < EACH_M; i++)
            [[unroll]] for (uint e = 0; e < GROUPS_D; e++) memory[(i * GROUPS_D + e) * SIDE + id] = sum[i][e];
        if (x == 0)
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
                memory[EACH_M * GROUPS_D * SIDE + 8 * g + y] = top[g];
                memory[EACH_M * GROUPS_D * SIDE + LINE_M + 8 * g + y] = total[g];
            }
    }
    barrier();
    const uint all_rows = gl_NumWorkGroups.z * heads * queries;
    const bool out_quads = VALUE_WIDTH % 4 == 0 && (uint(uint64_t(outcome)) & 15) == 0;
    if (side == 0)
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
            const vec4 their_top = memory[EACH_M * GROUPS_D * SIDE + 8 * g + y];
            const vec4 highest = max(top[g], their_top), mine = exp_below(top[g] - highest), theirs = exp_below(their_top - highest);
            const vec4 whole = total[g] * mine + memory[EACH_M * GROUPS_D * SIDE + LINE_M + 8 * g + y] * theirs;
            [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint row = own + 32 * g + 4 * y + i, line = score_row(row, batch, head, heads);
                const float inverse_ = whole[i] != 0.0 ? 1.0 / whole[i] : 0.0;
                if (row < rows) {
                    const uint at = (split * all_rows + (batch * queries + row / GROUP) * heads + head * GROUP + row % GROUP) * VALUE_WIDTH;
                    [[unroll]] for (uint e = 0; e < GROUPS_D; e++)
                        store_quad(outcome, at, 32 * e + 4 * x, VALUE_WIDTH,
                                   (sum[4 * g + i][e] * mine[i] + memory[((4 * g + i) * GROUPS_D + e) * SIDE + id] * theirs[i]) * inverse_,
                                   out_quads);
                    if (x == 0) lse.at[split * all_rows + line] = whole[i] != 0.0 ? highest[i] + log_(whole[i]) : NEGLIGIBLE;
                }
            }
        }
}
