#version 460
// Matrix product of fp32 operands on half-precision matrix units: each operand, times a power of two that brings its largest magnitude into
// [2^14, 2^15), is the sum of two float16, x = h + l with |x - h - l| <= max(2^-22 |x|, 2^-40 largest); three products of halves give
//     C = activation(scale * op(A) op(B) + bias + residual), A B = Ah Bh + (Ah Bl + Al Bh), without Al Bl (2^-22 of |A| |B| at most),
// or with splits > 1 the bare sums of part p of K into C + p c_part. Matrix units cut off what they add up, so that a long chain would
// drift towards zero: they add up TILE_K, and an ordinary fp32 sum takes these.
// Layouts: A [m,k] and B [k,n] f32, each along its columns or (TRANSPOSE_*) along its rows, any leading dimension; C [m,n], bias [n],
// residual [m,n] f32; largest: PARTS magnitudes of A, then of B (largest.comp). A workgroup owns TILE_M x TILE_N outputs, each of its
// subgroups WARP_M x WARP_N. Limits: TILE_K a multiple of 8; invocations = subgroups * subgroup size.
// NumPy twin: hierarchos.kernels.gemm_split.split_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common.glsl"
#include "numerics.glsl"
#include "activation.glsl"
#include "bands.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint ALL = 32;
layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint TILE_K = 32;
layout(constant_id = 4) const uint WARP_M = 32;
layout(constant_id = 5) const uint WARP_N = 32;
layout(constant_id = 6) const uint MM = 16;             // rows, columns and k of one matrix
layout(constant_id = 7) const uint MN = 16;
layout(constant_id = 8) const uint MK = 16;
layout(constant_id = 9) const uint BUFFERS = 1;         // tiles in shared memory; with 2 one is filled while the other is read
layout(constant_id = 10) const bool TRANSPOSE_A = false;
layout(constant_id = 11) const bool TRANSPOSE_B = false;
layout(constant_id = 12) const bool RESIDUAL = false;
layout(constant_id = 13) const uint ACTIVATION = 0;
layout(constant_id = 14) const uint PARTS = 128;

layout(push_constant, scalar) uniform Arguments {
    uint64_t a, b, c, bias, residual, largest;
    uint m, n, k, lda, ldb, ldc, ldr;
    float scale;
    uint splits, k_part, c_part;
};

const uint PAD = 8;
const uint LENGTH_A = TRANSPOSE_A ? TILE_M : TILE_K, LINES_A = TRANSPOSE_A ? TILE_K : TILE_M;
const uint LENGTH_B = TRANSPOSE_B ? TILE_K : TILE_N, LINES_B = TRANSPOSE_B ? TILE_N : TILE_K;
const uint STEP_A = (LENGTH_A + PAD) / 8, STEP_B = (LENGTH_B + PAD) / 8;            // of a line, in uvec4
const uint SIZE_A = LINES_A * STEP_A, SIZE_B = LINES_B * STEP_B;                    // of one half of the sum
const uint SIZE = 2 * (SIZE_A + SIZE_B);                                            // Ah, Al, Bh, Bl
const uint LOADS_A = TILE_M * TILE_K / 8 / ALL, LOADS_B = TILE_N * TILE_K / 8 / ALL;
const uint FM = WARP_M / MM, FN = WARP_N / MN, WARPS_N = TILE_N / WARP_N;
const uint OUT_STEP = WARP_N / 4 + 1, OUT_SIZE = MM * OUT_STEP * (TILE_M / WARP_M) * WARPS_N;
shared uvec4 memory[BUFFERS * SIZE > OUT_SIZE ? BUFFERS * SIZE : OUT_SIZE];

coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> sum[FM * FN];
bool aligned;
float scale_a, scale_b;

// Eight numbers, of which the first `inside` exist; the others are zero.
void fetch(const uint64_t address, const int inside, out vec4 first, out vec4 second) {
    first = second = vec4(0);
    if (aligned) {
        if (inside > 0) first = Vec4s(address).at[0];
        if (inside > 4) second = Vec4s(address).at[1];
    } else {
        [[unroll]] for (int i = 0; i < 4; i++) if (i < inside) first[i] = Floats(address).at[i];
        [[unroll]] for (int i = 0; i < 4; i++) if (i + 4 < inside) second[i] = Floats(address).at[i + 4];
    }
}

// Line and first place of what an invocation loads `i`th of a tile in lines of `length`.
int line_of(const uint id, const uint i, const uint length) { return int((id + i * ALL) / (length / 8)); }
int place_of(const uint id, const uint i, const uint length) { return int((id + i * ALL) % (length / 8) * 8); }

// x to 11 bits, by its bits: a compiler may take packing and unpacking for nothing. (What float16 then still loses, below 2^-14, is as
// small as what it loses of the other half.)
vec4 high_part(const vec4 x) { return uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & 0xFFFFE000u); }

// The two halves of eight numbers into lines `size` apart.
void put_halves(const uint at, const uint size, const vec4 first, const vec4 second) {
    const vec4 h = high_part(first), i = high_part(second), l = first - h, m = second - i;
    memory[at] = uvec4(packHalf2x16(h.xy), packHalf2x16(h.zw), packHalf2x16(i.xy), packHalf2x16(i.zw));
    memory[at + size] = uvec4(packHalf2x16(l.xy), packHalf2x16(l.zw), packHalf2x16(m.xy), packHalf2x16(m.zw));
}

void multiply(const uint start, const uint row, const uint column) {
    coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> part[FM * FN];
    [[unroll]] for (uint i = 0; i < FM * FN; i++) part[i] = coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(0.0);
    [[unroll]] for (uint kk = 0; kk < TILE_K; kk += MK) {
        coopmat<float16_t, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> high[FM];
        coopmat<float16_t, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> low[FM];
        coopmat<float16_t, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB> other;
        [[unroll]] for (uint i = 0; i < FM; i++) {
            const uint r = row + i * MM;
            if (TRANSPOSE_A) {
                coopMatLoad(high[i], memory, start + kk * STEP_A + r / 8, STEP_A, gl_CooperativeMatrixLayoutColumnMajor);
                coopMatLoad(low[i], memory, start + SIZE_A + kk * STEP_A + r / 8, STEP_A, gl_CooperativeMatrixLayoutColumnMajor);
            } else {
                coopMatLoad(high[i], memory, start + r * STEP_A + kk / 8, STEP_A, gl_CooperativeMatrixLayoutRowMajor);
                coopMatLoad(low[i], memory, start + SIZE_A + r * STEP_A + kk / 8, STEP_A, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        [[unroll]] for (uint j = 0; j < FN; j++) {
            const uint r = column + j * MN, from = start + 2 * SIZE_A;
            if (TRANSPOSE_B) coopMatLoad(other, memory, from + SIZE_B + r * STEP_B + kk / 8, STEP_B, gl_CooperativeMatrixLayoutColumnMajor);
            else coopMatLoad(other, memory, from + SIZE_B + kk * STEP_B + r / 8, STEP_B, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0; i < FM; i++) part[i * FN + j] = coopMatMulAdd(high[i], other, part[i * FN + j]);
            if (TRANSPOSE_B) coopMatLoad(other, memory, from + r * STEP_B + kk / 8, STEP_B, gl_CooperativeMatrixLayoutColumnMajor);
            else coopMatLoad(other, memory, from + kk * STEP_B + r / 8, STEP_B, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0; i < FM; i++) part[i * FN + j] = coopMatMulAdd(low[i], other, part[i * FN + j]);
            [[unroll]] for (uint i = 0; i < FM; i++) part[i * FN + j] = coopMatMulAdd(high[i], other, part[i * FN + j]);
        }
    }
    [[unroll]] for (uint i = 0; i < FM * FN; i++) sum[i] += part[i];
}

// The power of two that brings the largest magnitude into [2^14, 2^15); of nothing but zeros any will do.
float power(const uint64_t parts) {
    uint most = 0;
    for (uint at = gl_SubgroupInvocationID; at < PARTS; at += gl_SubgroupSize) most = max(most, Uints(parts).at[at]);
    const int exponent = int(subgroupMax(most) >> 23);
    return uintBitsToFloat(uint(clamp(268 - exponent, 1, 253)) << 23);
}

float inverse(const float power) { return uintBitsToFloat(0x7F000000u - floatBitsToUint(power)); }

// Four outputs of a row from `column` on.
void put(const uint64_t C, const uint row, const uint column, const vec4 sums, const bool whole) {
    vec4 v = sums * inverse(scale_a) * inverse(scale_b);
    if (splits == 1) {
        v *= scale;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            const uint at = min(column + i, n - 1);
            if (bias != 0) v[i] += Floats(bias).at[at];
            if (RESIDUAL) v[i] += Floats(residual).at[row * ldr + at];
            v[i] = activate(ACTIVATION, v[i]);
        }
    }
    const uint at = row * ldc + column;
    if (whole && column + 4 <= n) Vec4s(C + 4ul * at).at[0] = v;
    else [[unroll]] for (uint i = 0; i < 4; i++) if (column + i < n) Floats(C).at[at + i] = v[i];
}

void main() {
    const uvec2 group = banded(gl_WorkGroupID.xy, gl_NumWorkGroups.xy);
    const uint id = gl_LocalInvocationID.x, row = group.y * TILE_M, column = group.x * TILE_N;
    const uint warp = gl_SubgroupID, warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    const uint slice = gl_WorkGroupID.z, begin = slice * k_part;
    const int length = int(min(k, begin + k_part) - begin), rows = int(m - row), columns = int(n - column);
    const uint64_t A = a + 4ul * (TRANSPOSE_A ? uint64_t(begin) * lda + row : uint64_t(row) * lda + begin);
    const uint64_t B = b + 4ul * (TRANSPOSE_B ? uint64_t(column) * ldb + begin : uint64_t(begin) * ldb + column);
    const uint64_t C = c + 4ul * uint64_t(slice) * c_part;
    aligned = (((uint(A) | uint(B)) & 15) | ((lda | ldb | (TRANSPOSE_A ? m : k) | (TRANSPOSE_B ? k : n)) & 3)) == 0;
    scale_a = power(largest);
    scale_b = power(largest + 4ul * PARTS);

    // Lines and eights beyond the last rows or columns repeat the last ones: nothing that comes of them is stored. So whole tiles of K are
    // loaded without a branch, and no load is waited for before it is needed.
    uint64_t from_a[LOADS_A], from_b[LOADS_B];
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
        const int line = line_of(id, i, LENGTH_A), place = place_of(id, i, LENGTH_A);
        from_a[i] = A + 4ul * (TRANSPOSE_A ? uint64_t(line) * lda + min(place, rows - 8) : uint64_t(min(line, rows - 1)) * lda + place);
    }
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) {
        const int line = line_of(id, i, LENGTH_B), place = place_of(id, i, LENGTH_B);
        from_b[i] = B + 4ul * (TRANSPOSE_B ? uint64_t(min(line, columns - 1)) * ldb + place : uint64_t(line) * ldb + min(place, columns - 8));
    }
    const bool eights = aligned && ((TRANSPOSE_A ? m & 7 : 0) | (TRANSPOSE_B ? 0 : n & 7)) == 0;
    const uint64_t step_a = 4ul * TILE_K * (TRANSPOSE_A ? lda : 1), step_b = 4ul * TILE_K * (TRANSPOSE_B ? 1 : ldb);

    [[unroll]] for (uint i = 0; i < FM * FN; i++) sum[i] = coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(0.0);
    vec4 next_a[LOADS_A][2], next_b[LOADS_B][2];
    uint half_ = 0;
    for (int at_k = -int(TILE_K); at_k < length; at_k += int(TILE_K)) {
        const int next_k = at_k + int(TILE_K), left = length - next_k;
        if (eights && left >= int(TILE_K)) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
                next_a[i][0] = Vec4s(from_a[i]).at[0];
                next_a[i][1] = Vec4s(from_a[i]).at[1];
                from_a[i] += step_a;
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) {
                next_b[i][0] = Vec4s(from_b[i]).at[0];
                next_b[i][1] = Vec4s(from_b[i]).at[1];
                from_b[i] += step_b;
            }
        } else if (left > 0) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
                const int line = line_of(id, i, LENGTH_A), place = place_of(id, i, LENGTH_A);
                const uint64_t from = A + 4ul * (TRANSPOSE_A ? uint64_t(next_k + line) * lda + place : uint64_t(line) * lda + next_k + place);
                fetch(from, line < (TRANSPOSE_A ? left : rows) ? (TRANSPOSE_A ? rows : left) - place : 0, next_a[i][0], next_a[i][1]);
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) {
                const int line = line_of(id, i, LENGTH_B), place = place_of(id, i, LENGTH_B);
                const uint64_t from = B + 4ul * (TRANSPOSE_B ? uint64_t(line) * ldb + next_k + place : uint64_t(next_k + line) * ldb + place);
                fetch(from, line < (TRANSPOSE_B ? columns : left) ? (TRANSPOSE_B ? left : columns) - place : 0, next_b[i][0], next_b[i][1]);
            }
        }
        if (at_k >= 0) multiply(half_ * SIZE, warp_row, warp_column);
        if (left > 0) {
            if (BUFFERS == 1) barrier();
            else half_ = 1 - half_;
            const uint start = half_ * SIZE;
            [[unroll]] for (uint i = 0; i < LOADS_A; i++)
                put_halves(start + uint(line_of(id, i, LENGTH_A)) * STEP_A + uint(place_of(id, i, LENGTH_A)) / 8, SIZE_A, next_a[i][0] * scale_a, next_a[i][1] * scale_a);
            [[unroll]] for (uint i = 0; i < LOADS_B; i++)
                put_halves(start + 2 * SIZE_A + uint(line_of(id, i, LENGTH_B)) * STEP_B + uint(place_of(id, i, LENGTH_B)) / 8, SIZE_B, next_b[i][0] * scale_b, next_b[i][1] * scale_b);
        }
        barrier();
    }

    // Through shared memory, so that rows are stored whole; each subgroup uses a part of its own.
    const bool whole = ((uint(C) & 15) | (ldc & 3)) == 0;
    const uint own = warp * MM * OUT_STEP, lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < FM; i++) {
        [[unroll]] for (uint j = 0; j < FN; j++)
            coopMatStore(sum[i * FN + j], memory, own + j * MN / 4, OUT_STEP, gl_CooperativeMatrixLayoutRowMajor);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[dont_unroll]] for (uint at = lane; at < MM * WARP_N / 4; at += gl_SubgroupSize) {
            const uint line = at / (WARP_N / 4), place = at % (WARP_N / 4), r = row + warp_row + i * MM + line;
            if (r < m && column + warp_column + 4 * place < n)
                put(C, r, column + warp_column + 4 * place, uintBitsToFloat(memory[own + line * OUT_STEP + place]), whole);
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
}
