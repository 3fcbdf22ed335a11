// Matrix product for CPU drivers: one subgroup of 8 lanes a workgroup, no shared memory, no barrier.
//
//   C [M,N] = activation(scale * op(A) [M,K] op(B) [K,N] + bias [N] + residual [M,N])
//   A is stored [M,K], or [K,M] when TRANSPOSE_A; B is stored [K,N], or [N,K] when TRANSPOSE_B; unit last stride.
//
// A CPU driver pays for a load by lane, whatever the address and the width: so every lane loads different data, always
// 64 bits (two floats that lie side by side), and rows of A reach the other lanes through subgroupShuffle (one instruction;
// subgroupBroadcast with a constant lane is a loop of 60 on Mesa 22.3, which asks every lane whether it is active).
// Addresses are a push constant plus one 32-bit index for each lane, batch entry included: see rows.glsl. Accumulators:
// ROWS x VECTORS vectors of 8 columns. Lane l holds, in vector 2j+h, column (or row) 16j + 2l + h of its tile.
// Each output is a sum over blocks of 16 k (32 where K > 192, 64 where K > 1024) of chains of sums of two products, so its bits do not depend
// on the tile or on where the tile lies. Against one chain of FMAs: half of the error at K = 72, a fifth at K = 512. `precise` keeps Mesa from
// making one chain of it. Written without fma, which is a product and a sum on such drivers anyway.
//
// Limits: fewer than 2^32 elements from an operand's first to its last; K >= 2, N >= 2, and M >= 2 with TRANSPOSE_A. ROWS is a multiple of 16 (8 allowed without TRANSPOSE_A).
// EDGE = false: M >= ROWS, N >= 8 VECTORS, K any; the last tiles are moved back to fit, and outputs that two tiles share are written
//         twice with equal bits. So where C is read again (ACTIVATION, or RESIDUAL is C itself) the tiles must fit exactly.
// EDGE = true: any M, N; loads are clamped and stores are checked.
// NumPy twin: hierarchos.kernels.gemm.matmul_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_shader_explicit_arithmetic_types_int32 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "numerics.glsl"
#include "activation.glsl"
#include "gemm.glsl"

layout(local_size_x = 8) in;
layout(constant_id = 1) const uint ROWS = 32;
layout(constant_id = 2) const uint VECTORS = 8;
layout(constant_id = 3) const bool TRANSPOSE_A = false;
layout(constant_id = 4) const bool TRANSPOSE_B = false;
layout(constant_id = 5) const bool EDGE = false;
layout(constant_id = 6) const bool RESIDUAL = false;
layout(constant_id = 7) const uint ACTIVATION = 0;

const uint SHORT = 192, LONG = 1024;                       // K up to which a chain has 16 or 32 k

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pair { uint64_t bits; };

vec2 load_pair(uint64_t base, uint index) { return uintBitsToFloat(unpack32(Pair(base + 4ul * index).bits)); }
float load_one(uint64_t base, uint index) { return Floats(base + 4ul * index).at[0]; }
void store_pair(uint64_t base, uint index, vec2 v) { Pair(base + 4ul * index).bits = pack64(floatBitsToUint(v)); }
void store_one(uint64_t base, uint index, float v) { Floats(base + 4ul * index).at[0] = v; }

// Elements `at` and `at + 1` of a line of `extent` elements that starts at `start`; what lies outside is arbitrary.
vec2 line_pair(uint64_t base, uint start, uint at, uint extent) {
    if (!EDGE) return load_pair(base, start + at);
    vec2 v = load_pair(base, start + min(at, extent - 2));
    return at + 1 < extent ? v : v.yx;
}

// Both k of the lane's rows (columns) first + 2 lane and the next: x.xy = k, k+1 of the first; zw of the second.
// start: index of row (column) 0 at k.
vec4 load_block(uint64_t base, uint start, uint stride, bool along_k, uint first, uint lane, uint extent) {
    const uint own = first + 2 * lane, top = extent - 1;
    if (along_k) {
        if (EDGE) return vec4(load_pair(base, min(own, top) * stride + start), load_pair(base, min(own + 1, top) * stride + start));
        const uint line = start + first * stride;
        return vec4(load_pair(base, 2 * lane * stride + line), load_pair(base, 2 * lane * stride + (line + stride)));
    }
    const vec2 p = EDGE ? line_pair(base, start, own, extent) : load_pair(base, 2 * lane + (start + first));
    const vec2 q = EDGE ? line_pair(base, start + stride, own, extent) : load_pair(base, 2 * lane + (start + first + stride));
    return vec4(p.x, q.x, p.y, q.y);
}

// Index of this batch entry's first element.
uint batch_start(uint outer_stride, uint inner_stride) {
    return gl_WorkGroupID.z / batch_inner * outer_stride + gl_WorkGroupID.z % batch_inner * inner_stride;
}

vec2 unless(bool repeated, vec2 v) { return repeated ? vec2(0.0, v.y) : v; }

void main() {
    const uint lane = gl_SubgroupInvocationID, m_ = m, n_ = n, k_ = k, lda_ = lda, ldb_ = ldb, ldc_ = ldc, ldr_ = ldr;
    const uint64_t A = a, B = b, C = c, R = residual;                           // see rows.glsl
    const uint a_start = batch_start(a_outer, a_inner), b_start = batch_start(b_outer, b_inner);
    const uint c_start = batch_start(c_outer, c_inner), r_start = batch_start(r_outer, r_inner);
    const float scale_ = scale;
    uint row = gl_WorkGroupID.y * ROWS, column = gl_WorkGroupID.x * 8 * VECTORS;
    if (!EDGE) {
        row = min(row, m - ROWS);
        column = min(column, n - 8 * VECTORS);
    }

    const uint length = k_ <= SHORT ? 16 : k_ <= LONG ? 32 : 64;
    precise float total[ROWS][VECTORS];
    [[unroll]] for (uint i = 0; i < ROWS; i++)
        [[unroll]] for (uint j = 0; j < VECTORS; j++) total[i][j] = 0.0;

    for (uint block = 0; block < k_; block += length) {
        precise float sum[ROWS][VECTORS];
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            [[unroll]] for (uint j = 0; j < VECTORS; j++) sum[i][j] = 0.0;
        for (uint step = block; step < min(k_, block + length); step += 2) {
            const uint at_k = min(step, k_ - 2);
            const bool repeated = at_k != step;                // odd K: the first of the last pair was taken already
            const uint a_at = a_start + at_k * (TRANSPOSE_A ? lda_ : 1), b_at = b_start + at_k * (TRANSPOSE_B ? 1 : ldb_);
            vec2 av[(ROWS + 15) / 16 * 2], bv[VECTORS];
            if (ROWS == 8) {
                av[0] = unless(repeated, load_pair(A, (EDGE ? min(row + lane, m_ - 1) : row + lane) * lda_ + a_at));
            } else [[unroll]] for (uint j = 0; j < ROWS / 16; j++) {
                vec4 v = load_block(A, a_at, lda_, !TRANSPOSE_A, row + 16 * j, lane, m_);
                av[2 * j] = unless(repeated, v.xy);
                av[2 * j + 1] = unless(repeated, v.zw);
            }
            [[unroll]] for (uint j = 0; j < VECTORS / 2; j++) {
                vec4 v = load_block(B, b_at, ldb_, TRANSPOSE_B, column + 16 * j, lane, n_);
                bv[2 * j] = unless(repeated, v.xy);
                bv[2 * j + 1] = unless(repeated, v.zw);
            }
            [[unroll]] for (uint i = 0; i < ROWS; i++) {       // a row of sums stays in registers over both k
                vec2 x;
                [[unroll]] for (uint h = 0; h < 2; h++)
                    x[h] = ROWS == 8 ? subgroupShuffle(av[0][h], i) : subgroupShuffle(av[2 * (i / 16) + i % 2][h], (i % 16) / 2);
                [[unroll]] for (uint j = 0; j < VECTORS; j++) {
                    precise const float two = x[0] * bv[j][0] + x[1] * bv[j][1];
                    sum[i][j] += two;
                }
            }
        }
        [[unroll]] for (uint i = 0; i < ROWS; i++)
            [[unroll]] for (uint j = 0; j < VECTORS; j++) total[i][j] += sum[i][j];
    }

    float offset[VECTORS];
    [[unroll]] for (uint j = 0; j < VECTORS; j++) offset[j] = 0.0;
    if (bias != 0) {
        [[unroll]] for (uint j = 0; j < VECTORS / 2; j++) {
            vec2 v = line_pair(bias, 0, column + 16 * j + 2 * lane, n);
            offset[2 * j] = v.x;
            offset[2 * j + 1] = v.y;
        }
    }
    [[unroll]] for (uint i = 0; i < ROWS; i++) {
        const uint r = row + i;
        if (!EDGE || r < m_) [[unroll]] for (uint j = 0; j < VECTORS / 2; j++) {
            const uint at = column + 16 * j + 2 * lane;
            vec2 v = vec2(fma(total[i][2 * j], scale_, offset[2 * j]), fma(total[i][2 * j + 1], scale_, offset[2 * j + 1]));
            if (RESIDUAL) v += line_pair(R, r_start + r * ldr_, at, n_);
            if (!EDGE || at + 1 < n_) store_pair(C, c_start + r * ldc_ + at, v);
            else if (at < n_) store_one(C, c_start + r * ldc_ + at, v.x);
        }
    }
    if (ACTIVATION != 0) {                                 // a rolled second pass over what this lane wrote: small code
        for (uint i = 0; i < (EDGE ? min(ROWS, m - row) : ROWS); i++)
            for (uint j = 0; j < VECTORS; j++) {
                uint at = column + 16 * (j / 2) + 2 * lane + j % 2, index = c_start + (row + i) * ldc + at;
                if (!EDGE || at < n) store_one(C, index, activate(ACTIVATION, load_one(C, index)));
            }
    }
}
