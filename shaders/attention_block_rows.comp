#version 460
// Gradient of the queries of an attention, for GPUs with large tiles: a workgroup owns M rows and goes through N keys at a time. Side 0
// computes the scores, side 1 the gradients of the probabilities; each then makes the weights of half the keys and adds these up.
//     p_j = exp(bend(SCALE q k_j) - lse),  dp_j = dropout(dout v_j),  dq = SCALE sum_j bend'(SCALE q k_j) p_j (dp_j - delta) k_j,
//     delta += sum_j p_j (dp_j - delta), dq -= SCALE c sum_j p_j (dp_j - delta) with c the mean of four keys: both take the rounding of
//     delta out of gradients, as in attention_lanes_rows.comp
// Layouts, grid and limits as in attention_tile_rows.comp; WIDTH and VALUE_WIDTH up to 128. NumPy twin: attention_backward_reference.
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
    Floats q, k, v, dout, stats;
    Floats dq;
    Ints segments_q, segments_k;
    Floats slopes;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const uint STAGES = N * LINE_M, CHANNEL_STAGE = CHUNK * (LINE_M + LINE_N), LINE_STAGE = CHUNK * LINE_D;
const uint STAGE = CHANNEL_STAGE > LINE_STAGE ? CHANNEL_STAGE : LINE_STAGE, BEFORE = STAGES + 4 * STAGE;
const uint JOINED = EACH_M * GROUPS_D * SIDE + 2 * LINE_M;
shared vec4 memory[BEFORE > JOINED ? BEFORE : JOINED];   // weights, two stages of each side; in the end what side 1 hands over
#include "attention_block_steps.glsl"

const uint LOADS = LOADS_A + LOADS_B > LOADS_D ? LOADS_A + LOADS_B : LOADS_D;
vec4 fetched[LOADS];
uint own, rows, head, batch, heads, k_base;
bool quads;
uint from_rows[LOADS_A], from_keys[LOADS_B];          // where this invocation's lines of q and k, or of dout and v, start

// Lines beyond the end repeat the last one: nothing that comes of them is used. Without branches around loads, none is waited for before
// it is needed.
void locate_rows(uint side, uint id) {
    const uint base = side == 0 ? batch * q_stride.x + head * GROUP * q_stride.z : (batch * queries * heads + head * GROUP) * VALUE_WIDTH;
    const uint along_t = side == 0 ? q_stride.y : heads * VALUE_WIDTH, along_g = side == 0 ? q_stride.z : VALUE_WIDTH;
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
        const uint row = min(own + (id + SIDE * i) / QUADS, rows - 1);
        from_rows[i] = base + row / GROUP * along_t + row % GROUP * along_g;
    }
}

void locate_keys(uint side, uint id, uint first) {
    const uint base = side == 0 ? k_base : batch * v_stride.x + head * v_stride.z, along = side == 0 ? k_stride.y : v_stride.y;
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) from_keys[i] = base + min(first + (id + SIDE * i) / QUADS, keys - 1) * along;
}

// A chunk of channels of the owned rows and of the keys.
void fetch_channels(uint side, uint id, uint chunk) {
    const uint width = side == 0 ? WIDTH : VALUE_WIDTH, first = chunk * CHUNK;
    Floats a = side == 0 ? q : dout, b = side == 0 ? k : v;
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) fetched[i] = load_quad(a, from_rows[i], first + 4 * ((id + SIDE * i) % QUADS), width, quads);
    [[unroll]] for (uint i = 0; i < LOADS_B; i++)
        fetched[LOADS_A + i] = load_quad(b, from_keys[i], first + 4 * ((id + SIDE * i) % QUADS), width, quads);
}

void keep_channels(uint id, uint stage) {
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) keep_m(stage, (id + SIDE * i) / QUADS, (id + SIDE * i) % QUADS, fetched[i]);
    [[unroll]] for (uint i = 0; i < LOADS_B; i++)
        keep_n(stage + CHUNK * LINE_M, (id + SIDE * i) / QUADS, (id + SIDE * i) % QUADS, fetched[LOADS_A + i]);
}

void fetch_keys(uint id, uint first) {
    [[unroll]] for (uint i = 0; i < LOADS_D; i++) {
        const uint e = id + SIDE * i, key = min(first + e / LINE_D, keys - 1);
        fetched[i] = load_quad(k, k_base + key * k_stride.y, 4 * (e % LINE_D), WIDTH, quads);
    }
}

void keep_keys(uint id, uint stage) {
    [[unroll]] for (uint i = 0; i < LOADS_D; i++) memory[stage + id + SIDE * i] = fetched[i];
}

void main() {
    const uint id = gl_LocalInvocationID.x % SIDE, side = side_of(gl_LocalInvocationID.x), x = x_of(id), y = y_of(id);
    head = gl_WorkGroupID.y;
    batch = gl_WorkGroupID.z;
    heads = gl_NumWorkGroups.y * GROUP;
    rows = queries * GROUP;
    own = (gl_NumWorkGroups.x - 1 - gl_WorkGroupID.x) * M;                                      // longest first
    const uint all_rows = gl_NumWorkGroups.z * heads * queries, end_row = min(own + M, rows);
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 random = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);
    quads = ALIGNED && ((uint(uint64_t(q)) | uint(uint64_t(k)) | uint(uint64_t(v)) | uint(uint64_t(dout))) & 15) == 0;
    k_base = batch * k_stride.x + head * k_stride.z;

    vec4 lse[GROUPS_M], delta[GROUPS_M], left[GROUPS_M], mass[GROUPS_M];
    [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
        left[g] = mass[g] = vec4(0.0);
        [[unroll]] for (uint i = 0; i < 4; i++) {
            const uint row = min(own + 32 * g + 4 * y + i, rows - 1), line = (batch * heads + head * GROUP + row % GROUP) * queries + row / GROUP;
            lse[g][i] = stats.at[line] < FLOOR ? -NEGLIGIBLE : stats.at[line];
            delta[g][i] = stats.at[all_rows + line];
        }
    }
    clear_sums();
    int start, stop, first_end, last_start;
    key_range(int(own / GROUP), offset, int(keys), start, last_start);
    key_range(int((end_row - 1) / GROUP), offset, int(keys), first_end, stop);
    start -= start % int(N);
    uint stage = STAGES + side * 2 * STAGE, other = stage + STAGE;
    locate_rows(side, id);
    locate_keys(side, id, uint(start));
    fetch_channels(side, id, 0);
    keep_channels(id, stage);
    barrier();

    for (int j0 = start; j0 <= stop; j0 += int(N)) {
        clear_block();
        for (uint c = 0; c < CHUNKS; c++) {
            if (c + 1 < CHUNKS) fetch_channels(side, id, c + 1);
            else fetch_keys(id, uint(j0) + side * (N / 2));
            multiply_channels(stage, stage + CHUNK * LINE_M, x, y);
            if (c + 1 < CHUNKS) keep_channels(id, other);
            else keep_keys(id, other);
            const uint swap = stage;
            stage = other;
            other = swap;
            barrier();
        }
        // Side 0 hands over its scores of keys 32 to 63, side 1 its gradients of probabilities of keys 0 to 31.
        [[unroll]] for (uint u = 0; u < 4; u++)
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++)
                memory[place_w(32 * (1 - side) + 4 * x + u, 8 * g + y)] = side == 0 ? block[4 + u][g] : block[u][g];
        barrier();
        const int first_key = j0 + int(32 * side + 4 * x);
        const bool closed = SEGMENTS || j0 < first_end || j0 + int(N) - 1 > last_start;
        int segment[4];
        [[unroll]] for (uint u = 0; u < 4; u++) segment[u] = SEGMENTS ? segments_k.at[batch * keys + min(uint(first_key) + u, keys - 1)] : 0;
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
            vec4 score[4], slope_[4];
            [[unroll]] for (uint u = 0; u < 4; u++) {
                const vec4 theirs = memory[place_w(32 * side + 4 * x + u, 8 * g + y)], mine = side == 0 ? block[u][g] : block[4 + u][g];
                score[u] = side == 0 ? mine : theirs;
                block[u][g] = side == 0 ? theirs : mine;       // gradients of the probabilities
            }
            if (SOFTCAP > 0.0 || SLOPES)
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    const uint row = min(own + 32 * g + 4 * y + i, rows - 1);
                    const float slope = SLOPES ? slopes.at[head * GROUP + row % GROUP] : 0.0;
                    [[unroll]] for (uint u = 0; u < 4; u++) {
                        float change;
                        score[u][i] = bend(score[u][i] * SCALE, slope, int(row / GROUP) + offset - first_key - int(u), change);
                        slope_[u][i] = change;
                    }
                }
            if (closed)
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    const uint t = min(own + 32 * g + 4 * y + i, rows - 1) / GROUP;
                    const int needed = SEGMENTS ? segments_q.at[batch * queries + t] : 0;
                    int first, last;
                    key_range(int(t), offset, int(keys), first, last);
                    [[unroll]] for (uint u = 0; u < 4; u++) {
                        const int position = first_key + int(u);
                        if (position < first || position > last || segment[u] != needed) score[u][i] = NEGLIGIBLE;
                    }
                }
            if (DROP_BELOW > 0)
                [[unroll]] for (uint i = 0; i < 4; i++) {
                    const uint row = min(own + 32 * g + 4 * y + i, rows - 1), line = (batch * heads + head * GROUP + row % GROUP) * queries + row / GROUP;
                    const vec4 keep = keep_quad(line, keys, uint(first_key) / 4, stream, random);
                    [[unroll]] for (uint u = 0; u < 4; u++) block[u][g][i] *= keep[u];
                }
            [[unroll]] for (uint u = 0; u < 4; u++) {
                const vec4 probability = probability_of(score[u], lse[g]);
                vec4 weight = probability * (block[u][g] - delta[g]);
                if (EXACT) mass[g] += probability;
                left[g] += weight;
                if (SOFTCAP > 0.0) weight *= slope_[u];
                memory[place_w(32 * side + 4 * x + u, 8 * g + y)] = weight;
            }
        }
        barrier();
        for (uint n = 0; n < N / 2; n += CHUNK) {
            const bool more = n + CHUNK < N / 2;
            if (more) fetch_keys(id, uint(j0) + side * (N / 2) + n + CHUNK);
            else {
                locate_keys(side, id, uint(j0) + N);
                fetch_channels(side, id, 0);
            }
            multiply_lines(0, side * (N / 2) + n, stage, x, y);
            if (more) keep_keys(id, other);
            else keep_channels(id, other);
            const uint swap = stage;
            stage = other;
            other = swap;
            barrier();
        }
    }

    [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
        left[g] = across_sum(left[g]);
        if (EXACT) mass[g] = across_sum(mass[g]);
    }
    if (side == 1) {
        [[unroll]] for (uint i = 0; i < EACH_M; i++)
            [[unroll]] for (uint e = 0; e < GROUPS_D; e++) memory[(i * GROUPS_D + e) * SIDE + id] = sum[i][e];
        if (x == 0)
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
                memory[EACH_M * GROUPS_D * SIDE + 8 * g + y] = left[g];
                if (EXACT) memory[EACH_M * GROUPS_D * SIDE + LINE_M + 8 * g + y] = mass[g];
            }
    }
    barrier();
    const bool out_quads = WIDTH % 4 == 0 && (uint(uint64_t(dq)) & 15) == 0;
    if (side == 0) {
        vec4 centre[GROUPS_D];
        [[unroll]] for (uint e = 0; e < GROUPS_D; e++) {
            centre[e] = vec4(0.0);
            if (SOFTCAP == 0.0)
                [[unroll]] for (uint u = 0; u < 4; u++)
                    centre[e] += 0.25 * load_quad(k, k_base + spread_key(start, stop, u, keys) * k_stride.y, 32 * e + 4 * x, WIDTH, quads);
        }
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
            left[g] += memory[EACH_M * GROUPS_D * SIDE + 8 * g + y];
            if (EXACT) mass[g] += memory[EACH_M * GROUPS_D * SIDE + LINE_M + 8 * g + y];
            const vec4 whole = EXACT ? vec4(whole_of(mass[g].x), whole_of(mass[g].y), whole_of(mass[g].z), whole_of(mass[g].w)) : vec4(1.0);
            [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint row = own + 32 * g + 4 * y + i;
                if (row < rows) {
                    const uint at = ((batch * queries + row / GROUP) * heads + head * GROUP + row % GROUP) * WIDTH;
                    [[unroll]] for (uint e = 0; e < GROUPS_D; e++)
                        store_quad(dq, at, 32 * e + 4 * x, WIDTH,
                                   fma(vec4(-left[g][i]), centre[e], sum[4 * g + i][e] + memory[((4 * g + i) * GROUPS_D + e) * SIDE + id]) *
                                       (SCALE * whole[i]), out_quads);
                    if (x == 0) {
                        const uint line = (batch * heads + head * GROUP + row % GROUP) * queries + row / GROUP;
                        stats.at[all_rows + line] = fma(left[g][i], whole[i], delta[g][i]);
                        if (EXACT) stats.at[wholes(all_rows) + line] = whole[i];
                    }
                }
            }
        }
    }
}
