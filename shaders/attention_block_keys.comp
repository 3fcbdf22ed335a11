#version 460
// Gradients of the keys and values of an attention, for GPUs with large tiles: a workgroup owns M keys and goes through the rows of all
// query heads of the group, N at a time, in a fixed order. Side 0 computes the scores and sums the values' gradients, side 1 the
// gradients of the probabilities and the keys' gradients; each makes the weights of half the rows.
//     p_i = exp(bend(SCALE q_i k) - lse_i),  dv = sum_i dropout(p_i) dout_i,
//     dk = SCALE sum_i bend'(SCALE q_i k) p_i (dropout(dout_i v) - delta_i) q_i
// Layouts, grid and limits as in attention_tile_keys.comp; WIDTH and VALUE_WIDTH up to 128. With SHARED, a workgroup takes one query
// head and dk, dv are [B,S,Hq,...]: attention_group_sum.comp adds up what each group gives to its key head. NumPy twin: attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"
#include "attention_blocks.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 17) const uint SHARED = 1;       // query heads for each key head where a workgroup takes one of them, GROUP being 1

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v, dout, stats;
    Floats dk, dv;
    Ints segments_q, segments_k;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const uint WEIGHTS = N * LINE_M, STAGES = 2 * WEIGHTS, CHANNEL_STAGE = CHUNK * (LINE_M + LINE_N), LINE_STAGE = CHUNK * LINE_D;
const uint STAGE = CHANNEL_STAGE > LINE_STAGE ? CHANNEL_STAGE : LINE_STAGE;
shared vec4 memory[STAGES + 4 * STAGE];               // probabilities, gradients of scores, two stages of each side
#include "attention_block_steps.glsl"

const uint LOADS = LOADS_A + LOADS_B > LOADS_D ? LOADS_A + LOADS_B : LOADS_D;
vec4 fetched[LOADS];
uint own, row_stop, head, batch, heads;
bool quads;
uint from_keys[LOADS_A], from_rows[LOADS_B];          // where this invocation's lines of k and q, or of v and dout, start

// Where a row of q (not `values`) or of dout starts. Lines beyond the end repeat the last one: nothing that comes of them is used. Without
// branches around loads, none is waited for before it is needed.
uint row_place(bool values, uint row) {
    row = min(row, row_stop - 1);
    return values ? ((batch * queries + row / GROUP) * heads + head * GROUP + row % GROUP) * VALUE_WIDTH
                  : batch * q_stride.x + row / GROUP * q_stride.y + (head * GROUP + row % GROUP) * q_stride.z;
}

void locate_keys(uint side, uint id) {
    const uint base = side == 0 ? batch * k_stride.x + head / SHARED * k_stride.z : batch * v_stride.x + head / SHARED * v_stride.z;
    [[unroll]] for (uint i = 0; i < LOADS_A; i++)
        from_keys[i] = base + min(own + (id + SIDE * i) / QUADS, keys - 1) * (side == 0 ? k_stride.y : v_stride.y);
}

void locate_rows(uint side, uint id, uint first) {
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) from_rows[i] = row_place(side == 1, first + (id + SIDE * i) / QUADS);
}

// A chunk of channels of the owned keys and of the rows.
void fetch_channels(uint side, uint id, uint chunk) {
    const uint width = side == 0 ? WIDTH : VALUE_WIDTH, first = chunk * CHUNK;
    Floats a = side == 0 ? k : v, b = side == 0 ? q : dout;
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) fetched[i] = load_quad(a, from_keys[i], first + 4 * ((id + SIDE * i) % QUADS), width, quads);
    [[unroll]] for (uint i = 0; i < LOADS_B; i++)
        fetched[LOADS_A + i] = load_quad(b, from_rows[i], first + 4 * ((id + SIDE * i) % QUADS), width, quads);
}

void keep_channels(uint id, uint stage) {
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) keep_m(stage, (id + SIDE * i) / QUADS, (id + SIDE * i) % QUADS, fetched[i]);
    [[unroll]] for (uint i = 0; i < LOADS_B; i++)
        keep_n(stage + CHUNK * LINE_M, (id + SIDE * i) / QUADS, (id + SIDE * i) % QUADS, fetched[LOADS_A + i]);
}

// All channels of CHUNK rows: of dout for the values' gradients, of q for the keys'.
void fetch_rows(uint side, uint id, uint first) {
    Floats source = side == 0 ? dout : q;
    [[unroll]] for (uint i = 0; i < LOADS_D; i++) {
        const uint e = id + SIDE * i;
        fetched[i] = load_quad(source, row_place(side == 0, first + e / LINE_D), 4 * (e % LINE_D), side == 0 ? VALUE_WIDTH : WIDTH, quads);
    }
}

void keep_rows(uint id, uint stage) {
    [[unroll]] for (uint i = 0; i < LOADS_D; i++) memory[stage + id + SIDE * i] = fetched[i];
}

void main() {
    const uint id = gl_LocalInvocationID.x % SIDE, side = side_of(gl_LocalInvocationID.x), x = x_of(id), y = y_of(id);
    head = gl_WorkGroupID.y;
    batch = gl_WorkGroupID.z;
    heads = gl_NumWorkGroups.y * GROUP;
    own = gl_WorkGroupID.x * M;
    const uint all_rows = gl_NumWorkGroups.z * heads * queries, last_own = min(own + M, keys) - 1;
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 random = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);
    quads = ALIGNED && ((uint(uint64_t(q)) | uint(uint64_t(k)) | uint(uint64_t(v)) | uint(uint64_t(dout))) & 15) == 0;

    int start, stop, open_first, open_last, unused;
    query_range(int(own), int(last_own), offset, int(queries), start, stop);
    query_range(int(last_own), int(last_own), offset, int(queries), open_first, unused);   // rows from open_first to open_last see
    query_range(int(own), int(own), offset, int(queries), unused, open_last);              // all keys of the block
    const uint row_start = uint(start) * GROUP;
    row_stop = start > stop ? row_start : uint(stop + 1) * GROUP;
    clear_sums();
    uint stage = STAGES + side * 2 * STAGE, other = stage + STAGE;
    if (row_start < row_stop) {
        locate_keys(side, id);
        locate_rows(side, id, row_start);
        fetch_channels(side, id, 0);
        keep_channels(id, stage);
        barrier();
    }

    for (uint row0 = row_start; row0 < row_stop; row0 += N) {
        clear_block();
        for (uint c = 0; c < CHUNKS; c++) {
            if (c + 1 < CHUNKS) fetch_channels(side, id, c + 1);
            else fetch_rows(side, id, row0);
            multiply_channels(stage, stage + CHUNK * LINE_M, x, y);
            if (c + 1 < CHUNKS) keep_channels(id, other);
            else keep_rows(id, other);
            const uint swap = stage;
            stage = other;
            other = swap;
            barrier();
        }
        // Side 0 hands over its scores of rows 32 to 63, side 1 its gradients of probabilities of rows 0 to 31.
        [[unroll]] for (uint u = 0; u < 4; u++)
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++)
                memory[side * WEIGHTS + place_w(32 * (1 - side) + 4 * x + u, 8 * g + y)] = side == 0 ? block[4 + u][g] : block[u][g];
        barrier();
        const bool closed = SEGMENTS || int(row0 / GROUP) < open_first || int((row0 + N - 1) / GROUP) > open_last;
        [[unroll]] for (uint u = 0; u < 4; u++) {
            const uint n = 32 * side + 4 * x + u, row = min(row0 + n, row_stop - 1), t = row / GROUP;
            const uint line = (batch * heads + head * GROUP + row % GROUP) * queries + t;
            const float seen = stats.at[line], delta = stats.at[all_rows + line], whole = EXACT ? stats.at[wholes(all_rows) + line] : 1.0;
            const float lse = row0 + n < row_stop && seen >= FLOOR ? seen : -NEGLIGIBLE;
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
                const vec4 theirs = memory[(1 - side) * WEIGHTS + place_w(n, 8 * g + y)], mine = side == 0 ? block[u][g] : block[4 + u][g];
                vec4 score = side == 0 ? mine : theirs, slope_ = vec4(1.0), keep = vec4(1.0);
                const vec4 dprobability = side == 0 ? theirs : mine;
                const int first_key = int(own + 32 * g + 4 * y);
                if (SOFTCAP > 0.0 || SLOPES) {
                    const float slope = SLOPES ? slopes.at[head * GROUP + row % GROUP] : 0.0;
                    [[unroll]] for (uint i = 0; i < 4; i++) {
                        float change;
                        score[i] = bend(score[i] * SCALE, slope, int(t) + offset - first_key - int(i), change);
                        slope_[i] = change;
                    }
                }
                if (closed) {
                    const int needed = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
                    int first, last;
                    key_range(int(t), offset, int(keys), first, last);
                    [[unroll]] for (uint i = 0; i < 4; i++) {
                        const int position = first_key + int(i);
                        const int segment = SEGMENTS ? segments_k.at[batch * keys + min(uint(position), keys - 1)] : 0;
                        if (position < first || position > last || segment != needed) score[i] = NEGLIGIBLE;
                    }
                }
                if (DROP_BELOW > 0) keep = keep_quad(line, keys, uint(first_key) / 4, stream, random);
                const vec4 probability = probability_of(score, vec4(lse)) * whole;
                vec4 weight = probability * (dprobability * keep - delta);
                if (SOFTCAP > 0.0) weight *= slope_;
                memory[place_w(n, 8 * g + y)] = probability * keep;
                memory[WEIGHTS + place_w(n, 8 * g + y)] = weight;
            }
        }
        barrier();
        for (uint n = 0; n < N; n += CHUNK) {
            const bool more = n + CHUNK < N;
            if (more) fetch_rows(side, id, row0 + n + CHUNK);
            else {
                locate_rows(side, id, row0 + N);
                fetch_channels(side, id, 0);
            }
            multiply_lines(side * WEIGHTS, n, stage, x, y);
            if (more) keep_rows(id, other);
            else keep_channels(id, other);
            const uint swap = stage;
            stage = other;
            other = swap;
            barrier();
        }
    }

    const uint width = side == 0 ? VALUE_WIDTH : WIDTH;
    Floats target = side == 0 ? dv : dk;
    const bool out_quads = width % 4 == 0 && (uint(uint64_t(target)) & 15) == 0;
    [[unroll]] for (uint i = 0; i < EACH_M; i++) {
        const uint key = own + 32 * (i / 4) + 4 * y + i % 4;
        if (key < keys)
            [[unroll]] for (uint e = 0; e < GROUPS_D; e++)
                store_quad(target, ((batch * keys + key) * gl_NumWorkGroups.y + head) * width, 32 * e + 4 * x, width,
                           sum[i][e] * (side == 0 ? 1.0 : SCALE), out_quads);
    }
}
