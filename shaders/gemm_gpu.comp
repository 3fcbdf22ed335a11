// Matrix product for GPUs: tiles in shared memory, double buffered, the next tile fetched into registers meanwhile.
//
//   C [M,N] = activation(scale * op(A) [M,K] op(B) [K,N] + bias [N] + residual [M,N])
//   A is stored [M,K], or [K,M] when TRANSPOSE_A; B is stored [K,N], or [N,K] when TRANSPOSE_B; unit last stride.
//
// A workgroup owns TILE_M x TILE_N outputs and walks K in steps of TILE_K; an invocation owns EACH_M x EACH_N of them, in
// groups of 4 x 4 spread over the tile, so that shared memory is read by vec4 without bank conflicts. Any M, N, K: tiles that
// hang over an edge take checked loads and stores (a uniform branch). 16-byte loads where addresses and strides allow.
// Each output is a sum over blocks of `k_block` k (a multiple of TILE_K) of chains of FMAs, added up in C, because one long
// chain errs several times as much as PyTorch's blocked sums do. Split K: workgroup z = batch * splits + part computes k in
// [part k_part, (part + 1) k_part) into C + part * c_part; gemm_reduce adds the parts in order.
//
// Limits: invocations = TILE_M TILE_N / (EACH_M EACH_N); TILE_M TILE_K / 4 and TILE_N TILE_K / 4 are multiples of it;
// EACH_M, EACH_N, TILE_K multiples of 4. NumPy twin: hierarchos.kernels.gemm.matmul_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#include "numerics.glsl"
#include "activation.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint TILE_M = 64;
layout(constant_id = 2) const uint TILE_N = 64;
layout(constant_id = 3) const uint TILE_K = 16;
layout(constant_id = 4) const uint EACH_M = 4;
layout(constant_id = 5) const uint EACH_N = 4;
layout(constant_id = 6) const bool TRANSPOSE_A = false;
layout(constant_id = 7) const bool TRANSPOSE_B = false;
layout(constant_id = 8) const bool RESIDUAL = false;
layout(constant_id = 9) const uint ACTIVATION = 0;

layout(push_constant, scalar) uniform Arguments {
    uint64_t a, b, c, bias, residual;       // bias, residual: 0 when absent
    uint m, n, k, lda, ldb, ldc, ldr;
    uint batch_inner;
    uint a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, r_outer, r_inner;
    float scale;
    uint splits, k_part, c_part, k_block;
};

const uint THREADS = TILE_M * TILE_N / (EACH_M * EACH_N);
const uint WIDE = TILE_N / EACH_N;                         // invocations along N
const uint GROUPS_M = EACH_M / 4, GROUPS_N = EACH_N / 4;
const uint LOADS_A = TILE_M * TILE_K / 4 / THREADS, LOADS_B = TILE_N * TILE_K / 4 / THREADS;
const uint LINE_A = TILE_M / 4 + 1, LINE_B = TILE_N / 4 + 1;   // in vec4; one more against bank conflicts

shared vec4 tile_a[2][TILE_K * LINE_A];
shared vec4 tile_b[2][TILE_K * LINE_B];

struct Source { uint64_t base; uint stride, lines, extent; bool aligned; };

Source source_of(uint64_t base, uint stride, uint lines, uint extent) {
    return Source(base, stride, lines, extent, (uint(base) & 15) == 0 && stride % 4 == 0);
}

// Elements at .. at + 3 of a line; 0 outside when checked.
vec4 fetch(Source s, uint line, uint at, bool whole) {
    Floats p = Floats(s.base + 4ul * (uint64_t(line) * s.stride + at));
    if (whole) return s.aligned ? Vec4s(uint64_t(p)).at[0] : vec4(p.at[0], p.at[1], p.at[2], p.at[3]);
    vec4 v = vec4(0.0);
    if (line < s.lines) {
        if (at < s.extent) v.x = p.at[0];
        if (at + 1 < s.extent) v.y = p.at[1];
        if (at + 2 < s.extent) v.z = p.at[2];
        if (at + 3 < s.extent) v.w = p.at[3];
    }
    return v;
}

// Part `index` of a tile of `side` rows or columns and TILE_K k. Along K: 4 k of one row; else 4 rows of one k.
vec4 fetch_part(Source s, bool along_k, uint index, uint side, uint origin, uint at_k, bool whole) {
    if (along_k) return fetch(s, origin + index / (TILE_K / 4), at_k + 4 * (index % (TILE_K / 4)), whole);
    return fetch(s, at_k + index / (side / 4), origin + 4 * (index % (side / 4)), whole);
}

void keep_a(uint half_, uint index, vec4 v) {
    if (TRANSPOSE_A) tile_a[half_][index / (TILE_M / 4) * LINE_A + index % (TILE_M / 4)] = v;
    else {
        uint row = index / (TILE_K / 4), first = 4 * (index % (TILE_K / 4));
        [[unroll]] for (uint i = 0; i < 4; i++) tile_a[half_][(first + i) * LINE_A + row / 4][row % 4] = v[i];
    }
}

void keep_b(uint half_, uint index, vec4 v) {
    if (!TRANSPOSE_B) tile_b[half_][index / (TILE_N / 4) * LINE_B + index % (TILE_N / 4)] = v;
    else {
        uint column = index / (TILE_K / 4), first = 4 * (index % (TILE_K / 4));
        [[unroll]] for (uint i = 0; i < 4; i++) tile_b[half_][(first + i) * LINE_B + column / 4][column % 4] = v[i];
    }
}

// Adds four sums to the target: to bias and residual in the first block of K, then to what the target holds.
void put(uint64_t C, uint64_t R, uint row, uint column, vec4 sum, bool first, bool last) {
    vec4 v = sum * scale;
    Floats target = Floats(C + 4ul * (uint64_t(row) * ldc + column));
    Floats before = first ? Floats(R + 4ul * (uint64_t(row) * ldr + column)) : target;
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (column + i < n) {
            if (first && bias != 0) v[i] += Floats(bias).at[column + i];
            if (!first || RESIDUAL) v[i] += before.at[i];
            if (last) v[i] = activate(ACTIVATION, v[i]);
        }
    if (column + 4 <= n && (uint(uint64_t(target)) & 15) == 0) Vec4s(uint64_t(target)).at[0] = v;
    else [[unroll]] for (uint i = 0; i < 4; i++) if (column + i < n) target.at[i] = v[i];
}

void main() {
    uint id = gl_LocalInvocationID.x, row = gl_WorkGroupID.y * TILE_M, column = gl_WorkGroupID.x * TILE_N;
    uint entry = gl_WorkGroupID.z / splits, part = gl_WorkGroupID.z % splits;
    uint outer = entry / batch_inner, inner = entry % batch_inner;
    uint begin = part * k_part, end = min(k, begin + k_part);
    uint64_t A = a + 4ul * (uint64_t(outer) * a_outer + uint64_t(inner) * a_inner);
    uint64_t B = b + 4ul * (uint64_t(outer) * b_outer + uint64_t(inner) * b_inner);
    uint64_t C = c + 4ul * (uint64_t(outer) * c_outer + uint64_t(inner) * c_inner + uint64_t(part) * c_part);
    uint64_t R = residual + 4ul * (uint64_t(outer) * r_outer + uint64_t(inner) * r_inner);
    Source from_a = TRANSPOSE_A ? source_of(A, lda, end, m) : source_of(A, lda, m, end);
    Source from_b = TRANSPOSE_B ? source_of(B, ldb, n, end) : source_of(B, ldb, end, n);
    bool inside = row + TILE_M <= m && column + TILE_N <= n;

    vec4 sum[EACH_M][GROUPS_N];
    [[unroll]] for (uint i = 0; i < EACH_M; i++)
        [[unroll]] for (uint j = 0; j < GROUPS_N; j++) sum[i][j] = vec4(0.0);

    vec4 next_a[LOADS_A], next_b[LOADS_B];
    bool whole = inside && begin + TILE_K <= end;
    [[unroll]] for (uint i = 0; i < LOADS_A; i++)
        keep_a(0, id + i * THREADS, fetch_part(from_a, !TRANSPOSE_A, id + i * THREADS, TILE_M, row, begin, whole));
    [[unroll]] for (uint i = 0; i < LOADS_B; i++)
        keep_b(0, id + i * THREADS, fetch_part(from_b, TRANSPOSE_B, id + i * THREADS, TILE_N, column, begin, whole));
    barrier();

    uint x = id % WIDE, y = id / WIDE, half_ = 0;
    for (uint at_k = begin; at_k < end; at_k += TILE_K) {
        bool more = at_k + TILE_K < end;
        whole = inside && at_k + 2 * TILE_K <= end;
        if (more) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++)
                next_a[i] = fetch_part(from_a, !TRANSPOSE_A, id + i * THREADS, TILE_M, row, at_k + TILE_K, whole);
            [[unroll]] for (uint i = 0; i < LOADS_B; i++)
                next_b[i] = fetch_part(from_b, TRANSPOSE_B, id + i * THREADS, TILE_N, column, at_k + TILE_K, whole);
        }
        [[unroll]] for (uint step = 0; step < TILE_K; step++) {
            vec4 av[GROUPS_M], bv[GROUPS_N];
            [[unroll]] for (uint g = 0; g < GROUPS_M; g++) av[g] = tile_a[half_][step * LINE_A + g * (TILE_M / EACH_M) + y];
            [[unroll]] for (uint g = 0; g < GROUPS_N; g++) bv[g] = tile_b[half_][step * LINE_B + g * WIDE + x];
            [[unroll]] for (uint i = 0; i < EACH_M; i++)
                [[unroll]] for (uint j = 0; j < GROUPS_N; j++) sum[i][j] = fma(vec4(av[i / 4][i % 4]), bv[j], sum[i][j]);
        }
        if (more) {
            half_ = 1 - half_;
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) keep_a(half_, id + i * THREADS, next_a[i]);
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) keep_b(half_, id + i * THREADS, next_b[i]);
        }
        uint done = at_k + TILE_K - begin;
        if (!more || done % k_block == 0)
            [[unroll]] for (uint i = 0; i < EACH_M; i++) {
                uint r = row + i / 4 * (4 * TILE_M / EACH_M) + 4 * y + i % 4;
                [[unroll]] for (uint j = 0; j < GROUPS_N; j++) {
                    if (r < m) put(C, R, r, column + 4 * (j * WIDE + x), sum[i][j], done <= k_block, !more);
                    sum[i][j] = vec4(0.0);
                }
            }
        barrier();
    }
}
