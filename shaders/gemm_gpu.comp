// Matrix product for GPUs: tiles in shared memory, double buffered, the next tile fetched into registers meanwhile.
//
//   C [M,N] = activation(scale * op(A) [M,K] op(B) [K,N] + bias [N] + residual [M,N])
//   A is stored [M,K], or [K,M] when TRANSPOSE_A; B is stored [K,N], or [N,K] when TRANSPOSE_B; unit last stride.
//
// A workgroup owns TILE_M x TILE_N outputs and walks K in steps of TILE_K, in SLICES parts side by side: slice s of its invocations
// takes k [s TILE_K / SLICES, (s + 1) TILE_K / SLICES) of every step, and the slices are added up at the end (1 + 2, then 0 + 1 for
// four: a fixed tree). An invocation owns EACH_M x EACH_N outputs, in groups of 4 x 4 spread over the tile. Shared memory holds four
// rows (columns) of one k as a vec4, at a place mixed with k / 4, so that stores and loads meet no bank conflicts. Any M, N, K:
// tiles that hang over an edge, or operands off 16-byte borders, take checked loads (a branch for the whole workgroup).
// The invocations of 32 are spread so that neighbours read the same vec4 of A, and neighbours of two the same of B: on NVIDIA such
// reads take half the time. With BLOCKS, each output is a sum over blocks of `k_block` k (a multiple of TILE_K) of chains of FMAs,
// because one long chain errs several times as much as PyTorch's blocked sums do. With THROUGH the blocks are added up in C itself: for
// tiles whose sums alone fill the registers. With EXACT, for small products, four k are added up first, then to a compensated sum (Kahan, 1965).
// Split K: workgroup z = batch * splits + part computes k in [part k_part, (part + 1) k_part) into C + part * c_part; gemm_reduce
// adds the parts in order.
//
// Limits: invocations = SLICES TILE_M TILE_N / (EACH_M EACH_N); TILE_M TILE_K / 4 and TILE_N TILE_K / 4 are multiples of it; EACH_M,
// EACH_N, TILE_K / SLICES multiples of 4; TILE_M, TILE_N multiples of 32; TILE_N / EACH_N and TILE_M / EACH_M multiples of 8.
// NumPy twin: hierarchos.kernels.gemm.matmul_reference.
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
layout(constant_id = 10) const uint SLICES = 1;
layout(constant_id = 11) const bool BLOCKS = false;
layout(constant_id = 12) const bool THROUGH = false;
layout(constant_id = 13) const bool EXACT = false;

layout(push_constant, scalar) uniform Arguments {
    uint64_t a, b, c, bias, residual;       // bias, residual: 0 when absent
    uint m, n, k, lda, ldb, ldc, ldr;
    uint batch_inner;
    uint a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, r_outer, r_inner;
    float scale;
    uint splits, k_part, c_part, k_block;
};

const uint THREADS = TILE_M * TILE_N / (EACH_M * EACH_N), ALL = SLICES * THREADS;
const uint WIDE = TILE_N / EACH_N, HIGH = TILE_M / EACH_M; // invocations along N and M
const uint GROUPS_M = EACH_M / 4, GROUPS_N = EACH_N / 4;
const uint LOADS_A = TILE_M * TILE_K / 4 / ALL, LOADS_B = TILE_N * TILE_K / 4 / ALL;
const uint LINE_A = TILE_M / 4, LINE_B = TILE_N / 4;       // in vec4
const uint STEPS = TILE_K / SLICES;                        // k of a slice in each step
const uint HALF = TILE_K * (LINE_A + LINE_B), SUMS = SLICES / 2 * TILE_M * TILE_N / EACH_M, ROUND = 4 * HIGH * LINE_B;
const uint BEFORE = 2 * HALF > SUMS ? 2 * HALF : SUMS;

shared vec4 memory[BEFORE > ROUND ? BEFORE : ROUND];                  // two halves of A and B; then sums of slices; then outputs

const uint MIXING = TILE_K < 32 ? 32 / TILE_K : 1;    // so that transposed stores of a step go to all banks

uint place_a(uint half_, uint k, uint quad) { return half_ * HALF + k * LINE_A + (quad ^ (k / 4 * MIXING & 7)); }
uint place_b(uint half_, uint k, uint quad) { return half_ * HALF + TILE_K * LINE_A + k * LINE_B + (quad ^ (k / 4 * MIXING & 7)); }

// Part `index` of a tile of `side` rows or columns: its bytes from the tile's first element. Along K, four k of one row; else four
// rows of one k.
uint part_offset(bool along_k, uint index, uint side, uint stride) {
    uint line = along_k ? index / (TILE_K / 4) : index / (side / 4), at = along_k ? index % (TILE_K / 4) : index % (side / 4);
    return 4 * (line * stride + 4 * at);
}

// Up to four elements; 0 from `valid` on.
vec4 fetch_checked(uint64_t address, int valid) {
    Floats p = Floats(address);
    vec4 v = vec4(0.0);
    [[unroll]] for (int i = 0; i < 4; i++) if (i < valid) v[i] = p.at[i];
    return v;
}

// How many of the four elements of a part lie inside; rows and k that are left from the tile's first element on.
int inside_part(bool along_k, uint index, uint side, int rows_left, int k_left) {
    int line = int(along_k ? index / (TILE_K / 4) : index / (side / 4)), at = 4 * int(along_k ? index % (TILE_K / 4) : index % (side / 4));
    return along_k ? (line < rows_left ? k_left - at : 0) : (line < k_left ? rows_left - at : 0);
}

void keep_a(uint half_, uint index, vec4 v) {
    if (TRANSPOSE_A) memory[place_a(half_, index / LINE_A, index % LINE_A)] = v;
    else {
        uint row = index / (TILE_K / 4), first = 4 * (index % (TILE_K / 4));
        [[unroll]] for (uint i = 0; i < 4; i++) memory[place_a(half_, first + i, row / 4)][row % 4] = v[i];
    }
}

void keep_b(uint half_, uint index, vec4 v) {
    if (!TRANSPOSE_B) memory[place_b(half_, index / LINE_B, index % LINE_B)] = v;
    else {
        uint column = index / (TILE_K / 4), first = 4 * (index % (TILE_K / 4));
        [[unroll]] for (uint i = 0; i < 4; i++) memory[place_b(half_, first + i, column / 4)][column % 4] = v[i];
    }
}

// Stores four sums with the epilogue: bias and residual with the first block, what C has with later ones, the activation with the last.
void put(uint64_t C, uint64_t R, uint row, uint column, vec4 sum, bool first, bool last) {
    vec4 v = sum * scale;
    Floats target = Floats(C + 4ul * (uint64_t(row) * ldc + column)), before = Floats(R + 4ul * (uint64_t(row) * ldr + column));
    Floats offset = Floats(bias + 4ul * column);
    const bool add_bias = bias != 0 && first, add_residual = RESIDUAL && first;
    uint64_t addresses = uint64_t(target) | (add_residual ? uint64_t(before) : 0ul) | (add_bias ? uint64_t(offset) : 0ul);
    if (column + 4 <= n && (uint(addresses) & 15) == 0) {
        if (add_bias) v += Vec4s(uint64_t(offset)).at[0];
        if (add_residual) v += Vec4s(uint64_t(before)).at[0];
        if (THROUGH && !first) v += Vec4s(uint64_t(target)).at[0];
        if (!THROUGH || last) [[unroll]] for (uint i = 0; i < 4; i++) v[i] = activate(ACTIVATION, v[i]);
        Vec4s(uint64_t(target)).at[0] = v;
        return;
    }
    for (uint i = 0; i < 4; i++)
        if (column + i < n) {
            float one = v[i];
            if (add_bias) one += offset.at[i];
            if (add_residual) one += before.at[i];
            if (THROUGH && !first) one += target.at[i];
            target.at[i] = !THROUGH || last ? activate(ACTIVATION, one) : one;
        }
}

// Sums of the block, and (without THROUGH) of the blocks before it: these are needed rarely, and an index that the compiler cannot know
// keeps them out of the registers.
vec4 sum[EACH_M][GROUPS_N], total[EACH_M * GROUPS_N];
vec4 lost[EXACT ? EACH_M : 1][EXACT ? GROUPS_N : 1];   // what rounding added to `sum`; declared `precise`, Mesa 22.3 gave zeros

void clear_sums(uint hidden) {
    [[unroll]] for (uint i = 0; i < EACH_M; i++)
        [[unroll]] for (uint j = 0; j < GROUPS_N; j++) {
            sum[i][j] = vec4(0.0);
            if (EXACT) lost[i][j] = vec4(0.0);
            if (BLOCKS && !THROUGH) total[hidden + i * GROUPS_N + j] = vec4(0.0);
        }
}

void end_block(uint hidden) {
    [[unroll]] for (uint i = 0; i < EACH_M; i++)
        [[unroll]] for (uint j = 0; j < GROUPS_N; j++) {
            total[hidden + i * GROUPS_N + j] += sum[i][j];
            sum[i][j] = vec4(0.0);
        }
}

// Adds the products of four k whose first vec4 of A and B lie at `at_a` and `at_b`.
void multiply_four(uint at_a, uint at_b) {
    [[unroll]] for (uint k = 0; k < 4; k++) {
        vec4 av[GROUPS_M], bv[GROUPS_N];
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) av[g] = memory[at_a + k * LINE_A + g * HIGH];
        [[unroll]] for (uint g = 0; g < GROUPS_N; g++) bv[g] = memory[at_b + k * LINE_B + g * WIDE];
        [[unroll]] for (uint i = 0; i < EACH_M; i++)
            [[unroll]] for (uint j = 0; j < GROUPS_N; j++) sum[i][j] = fma(vec4(av[i / 4][i % 4]), bv[j], sum[i][j]);
    }
}

// The same, the four products of an output added up first.
void multiply_four_exactly(uint at_a, uint at_b) {
    vec4 av[4][GROUPS_M], bv[4][GROUPS_N];
    [[unroll]] for (uint k = 0; k < 4; k++) {
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) av[k][g] = memory[at_a + k * LINE_A + g * HIGH];
        [[unroll]] for (uint g = 0; g < GROUPS_N; g++) bv[k][g] = memory[at_b + k * LINE_B + g * WIDE];
    }
    [[unroll]] for (uint i = 0; i < EACH_M; i++)
        [[unroll]] for (uint j = 0; j < GROUPS_N; j++) {
            vec4 four = vec4(av[0][i / 4][i % 4]) * bv[0][j];
            [[unroll]] for (uint k = 1; k < 4; k++) four = fma(vec4(av[k][i / 4][i % 4]), bv[k][j], four);
            add_exactly(sum[i][j], lost[i][j], four);
        }
}

// Adds the products of one step of K that lies in shared memory.
void multiply(uint half_, uint slice, uint x, uint y) {
    [[unroll]] for (uint k = 0; k < STEPS; k += 4) {
        const uint at_a = place_a(half_, slice * STEPS + k, y), at_b = place_b(half_, slice * STEPS + k, x);
        if (EXACT) multiply_four_exactly(at_a, at_b);
        else multiply_four(at_a, at_b);
    }
}

// Leaves the sums of all slices in slice 0; four rows of each invocation at a time pass through shared memory.
void add_slices(uint slice, uint thread) {
    [[unroll]] for (uint half_ = SLICES / 2; half_ > 0; half_ /= 2)
        [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
            barrier();
            if (slice >= half_ && slice < 2 * half_)
                [[unroll]] for (uint i = 0; i < 4; i++)
                    [[unroll]] for (uint j = 0; j < GROUPS_N; j++)
                        memory[(((slice - half_) * 4 + i) * GROUPS_N + j) * THREADS + thread] = sum[4 * g + i][j];
            barrier();
            if (slice < half_)
                [[unroll]] for (uint i = 0; i < 4; i++)
                    [[unroll]] for (uint j = 0; j < GROUPS_N; j++)
                        sum[4 * g + i][j] += memory[((slice * 4 + i) * GROUPS_N + j) * THREADS + thread];
        }
}

// The `length` k that begin at A and B. fast: nothing hangs over an edge and all loads are aligned.
void sum_products(bool fast, uint64_t A, uint64_t B, uint row, uint column, uint length) {
    uint id = gl_LocalInvocationID.x, slice = id / THREADS, thread = id % THREADS, lane = thread % 32, line = thread / 32;
    uint x = line % (WIDE / 8) * 8 + (lane & 1) + (lane >> 1 & 6), y = line / (WIDE / 8) * 4 + (lane >> 1 & 1) + (lane >> 3 & 2);
    uint hidden = k_block & 3, from_a[LOADS_A], from_b[LOADS_B];
    [[unroll]] for (uint i = 0; i < LOADS_A; i++) from_a[i] = part_offset(!TRANSPOSE_A, id + i * ALL, TILE_M, lda);
    [[unroll]] for (uint i = 0; i < LOADS_B; i++) from_b[i] = part_offset(TRANSPOSE_B, id + i * ALL, TILE_N, ldb);
    uint64_t step_a = 4ul * TILE_K * (TRANSPOSE_A ? lda : 1), step_b = 4ul * TILE_K * (TRANSPOSE_B ? 1 : ldb);
    int rows = int(m - row), columns = int(n - column);
    clear_sums(hidden);

    vec4 next_a[LOADS_A], next_b[LOADS_B];
    uint half_ = 1;
    for (int at_k = -int(TILE_K); at_k < int(length); at_k += int(TILE_K)) {
        bool more = at_k + int(TILE_K) < int(length);
        int left = int(length) - at_k - int(TILE_K);
        if (more && fast) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) next_a[i] = Vec4s(A + from_a[i]).at[0];
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) next_b[i] = Vec4s(B + from_b[i]).at[0];
        } else if (more) {
            [[unroll]] for (uint i = 0; i < LOADS_A; i++)
                next_a[i] = fetch_checked(A + from_a[i], inside_part(!TRANSPOSE_A, id + i * ALL, TILE_M, rows, left));
            [[unroll]] for (uint i = 0; i < LOADS_B; i++)
                next_b[i] = fetch_checked(B + from_b[i], inside_part(TRANSPOSE_B, id + i * ALL, TILE_N, columns, left));
        }
        A += step_a;
        B += step_b;
        if (at_k >= 0) multiply(half_, slice, x, y);
        if (more) {
            half_ = 1 - half_;
            [[unroll]] for (uint i = 0; i < LOADS_A; i++) keep_a(half_, id + i * ALL, next_a[i]);
            [[unroll]] for (uint i = 0; i < LOADS_B; i++) keep_b(half_, id + i * ALL, next_b[i]);
        }
        if (BLOCKS && !THROUGH && (at_k + int(TILE_K)) % int(k_block) == 0) end_block(hidden);
        barrier();
    }
    if (BLOCKS && !THROUGH)
        [[unroll]] for (uint i = 0; i < EACH_M; i++)
            [[unroll]] for (uint j = 0; j < GROUPS_N; j++) sum[i][j] += total[hidden + i * GROUPS_N + j];
    if (SLICES > 1) add_slices(slice, thread);
}

// Stores the sums through shared memory, so that rows are stored whole and the epilogue stands here once: with it in the unrolled loops
// over the sums, the H200's driver kept them in memory and took ten times as long.
void store_sums(uint64_t C, uint64_t R, uint row, uint column, bool first, bool last) {
    uint id = gl_LocalInvocationID.x, slice = id / THREADS, lane = id % THREADS % 32, line = id % THREADS / 32;
    uint x = line % (WIDE / 8) * 8 + (lane & 1) + (lane >> 1 & 6), y = line / (WIDE / 8) * 4 + (lane >> 1 & 1) + (lane >> 3 & 2);
    [[unroll]] for (uint g = 0; g < GROUPS_M; g++) {
        barrier();
        if (slice == 0)
            [[unroll]] for (uint i = 0; i < 4; i++)
                [[unroll]] for (uint j = 0; j < GROUPS_N; j++) memory[(4 * y + i) * LINE_B + j * WIDE + x] = sum[4 * g + i][j];
        barrier();
        [[dont_unroll]] for (uint at = id; at < 4 * HIGH * LINE_B; at += ALL) {
            uint r = row + 4 * HIGH * g + at / LINE_B;
            if (r < m) put(C, R, r, column + 4 * (at % LINE_B), memory[at], first, last);
        }
    }
}

void main() {
    uint row = gl_WorkGroupID.y * TILE_M, column = gl_WorkGroupID.x * TILE_N;
    uint entry = gl_WorkGroupID.z / splits, part = gl_WorkGroupID.z % splits;
    uint outer = entry / batch_inner, inner = entry % batch_inner;
    uint begin = part * k_part, length = min(k, begin + k_part) - begin;
    uint64_t first_a = TRANSPOSE_A ? uint64_t(begin) * lda + row : uint64_t(row) * lda + begin;
    uint64_t first_b = TRANSPOSE_B ? uint64_t(column) * ldb + begin : uint64_t(begin) * ldb + column;
    uint64_t A = a + 4ul * (uint64_t(outer) * a_outer + uint64_t(inner) * a_inner + first_a);
    uint64_t B = b + 4ul * (uint64_t(outer) * b_outer + uint64_t(inner) * b_inner + first_b);
    uint64_t C = c + 4ul * (uint64_t(outer) * c_outer + uint64_t(inner) * c_inner + uint64_t(part) * c_part);
    uint64_t R = residual + 4ul * (uint64_t(outer) * r_outer + uint64_t(inner) * r_inner);
    bool inside = row + TILE_M <= m && column + TILE_N <= n && length % TILE_K == 0;
    bool aligned = ((uint(A) | uint(B)) & 15) == 0 && ((lda | ldb) & 3) == 0;
    if (!THROUGH) {
        sum_products(inside && aligned, A, B, row, column, length);
        store_sums(C, R, row, column, true, true);
    } else {
        uint64_t step_a = 4ul * (TRANSPOSE_A ? lda : 1), step_b = 4ul * (TRANSPOSE_B ? 1 : ldb);
        [[dont_unroll]] for (uint done = 0; done < length; done += k_block) {
            barrier();                                         // the outputs of the block before were read
            sum_products(inside && aligned, A + done * step_a, B + done * step_b, row, column, min(k_block, length - done));
            store_sums(C, R, row, column, done == 0, done + k_block >= length);
        }
    }
}
