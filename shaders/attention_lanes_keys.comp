#version 460
// Gradients of the keys and values of an attention, for devices without fast shared memory: a lane owns KEYS keys and goes
// through the rows of all query heads of the group in a fixed order.
//     p_i = exp(SCALE q_i k - lse_i),  dv = sum_i dropout(p_i) dout_i,  dk = SCALE sum_i p_i (dropout(dout_i v) - delta_i) q_i
// Layouts: q [B,T,Hq,WIDTH], k [B,S,Hk,WIDTH], v [B,S,Hk,VALUE_WIDTH] strided (last stride 1); dout, dk and dv contiguous; stats as
// attention_delta.comp writes them. Workgroup = subgroup = LANES; grid: key blocks, key heads, batch.
// Limits: fewer than 2^32 elements in each operand. NumPy twin: attention_backward_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "attention.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 11) const uint KEYS = 4;
const uint ROWS = 4;                                  // rows at a time

layout(push_constant, scalar) uniform Arguments {
    Floats q, k, v, dout, stats;
    Floats dk, dv;
    Ints segments_q, segments_k;
    uvec3 q_stride, k_stride, v_stride;
    uint queries, keys, stream;
};

const uint PARTS = (WIDTH + LANES - 1) / LANES, VALUE_PARTS = (VALUE_WIDTH + LANES - 1) / LANES;

void main() {
    const uint lane = gl_LocalInvocationID.x, head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z, heads = gl_NumWorkGroups.y * GROUP;
    const uint rows = queries * GROUP, block = gl_WorkGroupID.x * LANES * KEYS, all_rows = gl_NumWorkGroups.z * heads * queries;
    const int offset = Ints(stats).at[2 * all_rows + 2 + batch];
    const uvec2 seed = DROP_BELOW > 0 ? uvec2(Uints(stats).at[2 * all_rows], Uints(stats).at[2 * all_rows + 1]) : uvec2(0);

    float key[KEYS][WIDTH], dkey[KEYS][WIDTH], value[KEYS][VALUE_WIDTH], dvalue[KEYS][VALUE_WIDTH];
    int segment[KEYS];
    [[unroll]] for (uint c = 0; c < KEYS; c++) {
        const uint position = min(block + c * LANES + lane, keys - 1);
        const uint at = batch * k_stride.x + position * k_stride.y + head * k_stride.z;
        const uint from = batch * v_stride.x + position * v_stride.y + head * v_stride.z;
        [[unroll]] for (uint d = 0; d < WIDTH; d++) {
            key[c][d] = k.at[at + d] * SCALE;
            dkey[c][d] = 0.0;
        }
        [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) {
            value[c][d] = v.at[from + d];
            dvalue[c][d] = 0.0;
        }
        segment[c] = SEGMENTS ? segments_k.at[batch * keys + position] : 0;
    }

    int start, stop;
    query_range(int(block), int(min(block + LANES * KEYS, keys)) - 1, offset, int(queries), start, stop);
    const int stop_row = (stop + 1) * int(GROUP);
    for (int i = start * int(GROUP); i < stop_row; i += int(ROWS)) {
        const uint own = uint(min(i + int(min(lane, ROWS - 1)), stop_row - 1)), own_t = own / GROUP;
        const uint own_row = (batch * heads + head * GROUP + own % GROUP) * queries + own_t;
        const float own_lse = stats.at[own_row], own_delta = stats.at[all_rows + own_row];
        const int own_segment = SEGMENTS ? segments_q.at[batch * queries + own_t] : 0;
        [[unroll]] for (uint r = 0; r < ROWS; r++) {
            const uint row = uint(min(i + int(r), stop_row - 1)), t = row / GROUP, h = head * GROUP + row % GROUP;
            const uint at = batch * q_stride.x + t * q_stride.y + h * q_stride.z, from = ((batch * queries + t) * heads + h) * VALUE_WIDTH;
            float query[PARTS], gradient[VALUE_PARTS], score[KEYS], dscore[KEYS];
            [[unroll]] for (uint p = 0; p < PARTS; p++) query[p] = q.at[at + min(p * LANES + lane, WIDTH - 1)];
            [[unroll]] for (uint p = 0; p < VALUE_PARTS; p++) gradient[p] = dout.at[from + min(p * LANES + lane, VALUE_WIDTH - 1)];
            [[unroll]] for (uint c = 0; c < KEYS; c++) score[c] = dscore[c] = 0.0;
            [[unroll]] for (uint d = 0; d < WIDTH; d++) {
                const float x = subgroupBroadcast(query[d / LANES], d % LANES);
                [[unroll]] for (uint c = 0; c < KEYS; c++) score[c] = fma(key[c][d], x, score[c]);
            }
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) {
                const float x = subgroupBroadcast(gradient[d / LANES], d % LANES);
                [[unroll]] for (uint c = 0; c < KEYS; c++) dscore[c] = fma(value[c][d], x, dscore[c]);
            }
            int first, last;
            key_range(int(t), offset, int(keys), first, last);
            last = i + int(r) < stop_row ? last : -1;
            const float lse = subgroupBroadcast(own_lse, r), delta = subgroupBroadcast(own_delta, r);
            [[unroll]] for (uint c = 0; c < KEYS; c++) {
                const int position = int(block + c * LANES + lane);
                bool seen = position >= first && position <= last;
                if (SEGMENTS) seen = seen && segment[c] == subgroupBroadcast(own_segment, r);
                const float probability = seen ? exp_(score[c] - lse) : 0.0;
                float keep = 1.0;
                if (DROP_BELOW > 0) {
                    const uvec4 bits = random_quad((batch * heads + h) * queries + t, keys, uint(position) / 4, stream, seed);
                    const uvec2 pair = (position & 2) != 0 ? bits.zw : bits.xy;
                    keep = ((position & 1) != 0 ? pair.y : pair.x) >= DROP_BELOW ? KEEP_SCALE : 0.0;
                }
                score[c] = probability * keep;
                dscore[c] = probability * (dscore[c] * keep - delta);
            }
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) {
                const float x = subgroupBroadcast(gradient[d / LANES], d % LANES);
                [[unroll]] for (uint c = 0; c < KEYS; c++) dvalue[c][d] = fma(score[c], x, dvalue[c][d]);
            }
            [[unroll]] for (uint d = 0; d < WIDTH; d++) {
                const float x = subgroupBroadcast(query[d / LANES], d % LANES);
                [[unroll]] for (uint c = 0; c < KEYS; c++) dkey[c][d] = fma(dscore[c], x, dkey[c][d]);
            }
        }
    }

    [[unroll]] for (uint c = 0; c < KEYS; c++) {
        const uint position = block + c * LANES + lane;
        if (position < keys) {
            const uint at = (batch * keys + position) * gl_NumWorkGroups.y + head;
            [[unroll]] for (uint d = 0; d < WIDTH; d++) dk.at[at * WIDTH + d] = dkey[c][d] * SCALE;
            [[unroll]] for (uint d = 0; d < VALUE_WIDTH; d++) dv.at[at * VALUE_WIDTH + d] = dvalue[c][d];
        }
    }
}
