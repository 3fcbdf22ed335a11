#version 460
// Matrix product on matrix units: operands in half precision, sums in fp32.
//     C = activation(scale * op(A) op(B) + bias + residual), or with splits > 1 the bare sums of part p of K into C + p c_part
// Layouts: A [m,k] and B [k,n] halves, each along its columns or (TRANSPOSE_*) along its rows, any leading dimension; C [m,n] f32, or
// halves with HALF_OUT; bias f32 [n], residual f32 [m,n]. A workgroup owns TILE_M x TILE_N outputs, each of its subgroups WARP_M x WARP_N;
// tiles of A and B go through shared memory in lines of LINE halves, whose 16 bytes of padding put neighbouring lines into different banks.
// Eight halves are loaded at once where addresses and extents allow it, else one by one. The format is f16 as compiled; half_shader.py
// makes the bfloat16 kernel by changing the type of the matrices (BFLOAT says so to the epilogue).
// Limits: TILE_K a multiple of 8; invocations = subgroups * subgroup size. NumPy twin: hierarchos.kernels.gemm.matmul_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
#include "common.glsl"
#include "numerics.glsl"
#include "activation.glsl"
#include "half.glsl"
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
layout(constant_id = 9) const uint BUFFERS = 2;         // tiles in shared memory; with 2 one is filled while the other is read
layout(constant_id = 10) const bool TRANSPOSE_A = false;
layout(constant_id = 11) const bool TRANSPOSE_B = false;
layout(constant_id = 12) const bool RESIDUAL = false;
layout(constant_id = 13) const uint ACTIVATION = 0;
layout(constant_id = 14) const bool HALF_OUT = false;
layout(constant_id = 15) const bool BFLOAT = false;

layout(push_constant, scalar) uniform Arguments {
    uint64_t a, b, c, bias, residual;
    uint m, n, k, lda, ldb, ldc, ldr;
    uint batch_inner;
    uint a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, r_outer, r_inner;
    float scale;
    uint splits, k_part, c_part;
};

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Vectors { uvec4 at; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uvec2 at; };

const uint PAD = 8;
const uint LENGTH_A = TRANSPOSE_A ? TILE_M : TILE_K, LINES_A = TRANSPOSE_A ? TILE_K : TILE_M;
const uint LENGTH_B = TRANSPOSE_B ? TILE_K : TILE_N, LINES_B = TRANSPOSE_B ? TILE_N : TILE_K;
const uint STEP_A = (LENGTH_A + PAD) / 8, STEP_B = (LENGTH_B + PAD) / 8;            // of a line, in uvec4
const uint SIZE_A = LINES_A * STEP_A, SIZE_B = LINES_B * STEP_B;
const uint LOADS_A = TILE_M * TILE_K / 8 / ALL, LOADS_B = TILE_N * TILE_K / 8 / ALL;
const uint FM = WARP_M / MM, FN = WARP_N / MN, WARPS_N = TILE_N / WARP_N;
const uint OUT_STEP = WARP_N / 4 + 1, OUT_SIZE = MM * OUT_STEP * (TILE_M / WARP_M) * WARPS_N;
const uint TILES = BUFFERS * (SIZE_A + SIZE_B);
shared uvec4 memory[TILES > OUT_SIZE ? TILES : OUT_SIZE];

coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator> sum[FM * FN];
bool aligned;

// Eight halves, of which the first `inside` exist; the others are zero.
uvec4 fetch(const uint64_t address, const int inside) {
    uvec4 value = uvec4(0);
    if (aligned) {
        if (inside > 0) value = Vectors(address).at;
    } else {
        [[unroll]] for (int i = 0; i < 8; i++) if (i < inside) value[i / 2] |= uint(Halves(address).at[i]) << (16 * (i & 1));
    }
    return value;
}

// Line and first place of what an invocation loads `i`th of a tile in lines of `length`.
int line_of(const uint id, const uint i, const uint length) { return int((id + i * ALL) / (length / 8)); }
int place_of(const uint id, const uint i, const uint length) { return int((id + i * ALL) % (length / 8) * 8); }

void multiply(const uint start, const uint row, const uint column) {
    [[unroll]] for (uint kk = 0; kk < TILE_K; kk += MK) {
        coopmat<float16_t, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA> ma[FM];
        coopmat<float16_t, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB> mb;
        [[unroll]] for (uint i = 0; i < FM; i++) {
            const uint r = row + i * MM;
            if (TRANSPOSE_A) coopMatLoad(ma[i], memory, start + kk * STEP_A + r / 8, STEP_A, gl_CooperativeMatrixLayoutColumnMajor);
            else coopMatLoad(ma[i], memory, start + r * STEP_A + kk / 8, STEP_A, gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint j = 0; j < FN; j++) {
            const uint at = column + j * MN, from = start + SIZE_A;
            if (TRANSPOSE_B) coopMatLoad(mb, memory, from + at * STEP_B + kk / 8, STEP_B, gl_CooperativeMatrixLayoutColumnMajor);
            else coopMatLoad(mb, memory, from + kk * STEP_B + at / 8, STEP_B, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint i = 0; i < FM; i++) sum[i * FN + j] = coopMatMulAdd(ma[i], mb, sum[i * FN + j]);
        }
    }
}

uint narrow(const float x) { return BFLOAT ? to_bf16(x) : to_f16(x); }

// Four outputs of a row from `column` on.
void put(const uint64_t C, const uint64_t R, const uint row, const uint column, const vec4 sums, const bool whole) {
    vec4 v = sums;
    if (splits == 1) {
        v *= scale;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            const uint at = min(column + i, n - 1);
            if (bias != 0) v[i] += Floats(bias).at[at];
            if (RESIDUAL) v[i] += Floats(R).at[row * ldr + at];
            v[i] = activate(ACTIVATION, v[i]);
        }
    }
    const uint at = row * ldc + column;
    if (HALF_OUT) {
        if (whole && column + 4 <= n)
            Pairs(C + 2ul * at).at = uvec2(narrow(v.x) | narrow(v.y) << 16, narrow(v.z) | narrow(v.w) << 16);
        else
            [[unroll]] for (uint i = 0; i < 4; i++) if (column + i < n) Halves(C).at[at + i] = uint16_t(narrow(v[i]));
    } else if (whole && column + 4 <= n) {
        Vec4s(C + 4ul * at).at[0] = v;
    } else {
        [[unroll]] for (uint i = 0; i < 4; i++) if (column + i < n) Floats(C).at[at + i] = v[i];
    }
}

void main() {
    const uvec2 group = banded(gl_WorkGroupID.xy, gl_NumWorkGroups.xy);
    const uint id = gl_LocalInvocationID.x, row = group.y * TILE_M, column = group.x * TILE_N;
    const uint warp = gl_SubgroupID, warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    const uint entry = gl_WorkGroupID.z / splits, part = gl_WorkGroupID.z % splits, outer = entry / batch_inner, inner = entry % batch_inner;
    const uint begin = part * k_part;
    const int length = int(min(k, begin + k_part) - begin), rows = int(m - row), columns = int(n - column);
    const uint64_t first_a = TRANSPOSE_A ? uint64_t(begin) * lda + row : uint64_t(row) * lda + begin;
    const uint64_t first_b = TRANSPOSE_B ? uint64_t(column) * ldb + begin : uint64_t(begin) * ldb + column;
    const uint64_t A = a + 2ul * (uint64_t(outer) * a_outer + uint64_t(inner) * a_inner + first_a);
    const uint64_t B = b + 2ul * (uint64_t(outer) * b_outer + uint64_t(inner) * b_inner + first_b);
    const uint64_t C = c + (HALF_OUT ? 2ul : 4ul) * (uint64_t(outer) * c_outer + uint64_t(inner) * c_inner + uint64_t(part) * c_part);
    const uint64_t R = residual + 4ul * (uint64_t(outer) * r_outer + uint64_t(inner) * r_inner);
    aligned = (((uint(A) | uint(B)) & 15) | ((lda | ldb) & 7) | ((TRANSPOSE_A ? m : k) & 7) | ((TRANSPOSE_B ? k : n) & 7)) == 0;

    // Lines and eights beyond the last rows or columns repeat the last ones: nothing that comes of them is stored. So whole tiles of K are
    // loaded without a branch, and no load is waited for before it is needed.
    uint64_t from_a[LOADS_A], from_b[LOADS_B];
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
        const int line = line_of(id, i, LENGTH_A), place = place_of(id, i, LENGTH_A);
        from_a[i] = A + 2ul * (TRANSPOSE_A ? uint64_t(line) * lda + min(place, rows - 8) : uint64_t(min(line, rows - 1)) * lda + place);
    }
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) {
        const int line = line_of(id, i, LENGTH_B), place = place_of(id, i, LENGTH_B);
        from_b[i] = B + 2ul * (TRANSPOSE_B ? uint64_t(min(line, columns - 1)) * ldb + place : uint64_t(line) * ldb + min(place, columns - 8));
    }
    const uint64_t step_a = 2ul * TILE_K * (TRANSPOSE_A ? lda : 1), step_b = 2ul * TILE_K * (TRANSPOSE_B ? 1 : ldb);

    [[unroll]] for (uint i = 0; i < FM * FN; i++) sum[i] = coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>(0.0);
    uvec4 next_a[LOADS_A], next_b[LOADS_B];
    uint half_ = 0;
    for (int at_k = -int(TILE_K); at_k < length; at_k += int(TILE_K)) {
        const int next_k = at_k + int(TILE_K), left = length - next_k;
        if (aligned && left >= int(TILE_K)) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
                next_a[i] = Vectors(from_a[i]).at;
                from_a[i] += step_a;
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) {
                next_b[i] = Vectors(from_b[i]).at;
                from_b[i] += step_b;
            }
        } else if (left > 0) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) {
                const int line = line_of(id, i, LENGTH_A), place = place_of(id, i, LENGTH_A);
                const uint64_t from = A + 2ul * (TRANSPOSE_A ? uint64_t(next_k + line) * lda + place : uint64_t(line) * lda + next_k + place);
                next_a[i] = fetch(from, line < (TRANSPOSE_A ? left : rows) ? (TRANSPOSE_A ? rows : left) - place : 0);
            }
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) {
                const int line = line_of(id, i, LENGTH_B), place = place_of(id, i, LENGTH_B);
                const uint64_t from = B + 2ul * (TRANSPOSE_B ? uint64_t(line) * ldb + next_k + place : uint64_t(next_k + line) * ldb + place);
                next_b[i] = fetch(from, line < (TRANSPOSE_B ? columns : left) ? (TRANSPOSE_B ? left : columns) - place : 0);
            }
        }
        if (at_k >= 0) multiply(half_ * (SIZE_A + SIZE_B), warp_row, warp_column);
        if (left > 0) {
            if (BUFFERS == 1) barrier();
            else half_ = 1 - half_;
            const uint start = half_ * (SIZE_A + SIZE_B);
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) memory[start + uint(line_of(id, i, LENGTH_A)) * STEP_A + uint(place_of(id, i, LENGTH_A)) / 8] = next_a[i];
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) memory[start + SIZE_A + uint(line_of(id, i, LENGTH_B)) * STEP_B + uint(place_of(id, i, LENGTH_B)) / 8] = next_b[i];
        }
        barrier();
    }

    // Through shared memory, so that rows are stored whole; each subgroup uses a part of its own.
    const bool whole = HALF_OUT ? ((uint(C) & 7) | (ldc & 3)) == 0 : ((uint(C) & 15) | (ldc & 3)) == 0;
    const uint own = warp * MM * OUT_STEP, lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0; i < FM; i++) {
        [[unroll]] for (uint j = 0; j < FN; j++)
            coopMatStore(sum[i * FN + j], memory, own + j * MN / 4, OUT_STEP, gl_CooperativeMatrixLayoutRowMajor);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[dont_unroll]] for (uint at = lane; at < MM * WARP_N / 4; at += gl_SubgroupSize) {
            const uint line = at / (WARP_N / 4), place = at % (WARP_N / 4), r = row + warp_row + i * MM + line;
            if (r < m && column + warp_column + 4 * place < n)
                put(C, R, r, column + warp_column + 4 * place, uintBitsToFloat(memory[own + line * OUT_STEP + place]), whole);
        }
        subgroupMemoryBarrierShared();
        subgroupBarrier();
    }
}
