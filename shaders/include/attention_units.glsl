// What the attention kernels that work on elements of matrices share. A workgroup has WARPS subgroups; each owns SIDE rows and meets N
// columns at a time. Scores stay in the invocations that the matrix units left them in, and become operands of the next product there.
// Operands are lines of PLANES x WIDTH halves: the numbers themselves (PLANES 1), or the two float16 whose sum is an fp32 number times a
// power of two of its block of 64 lines (PLANES 2; attention_split.comp). In the latter case a product is three products of halves:
// a b = ah bh + (ah bl + al bh); matrix units cut off what they add up, so that they add up a tile at most, and an ordinary sum takes these.
layout(constant_id = 0) const uint ALL = 128;
layout(constant_id = 13) const bool BFLOAT = false;
layout(constant_id = 14) const uint N = 64;
layout(constant_id = 15) const uint PLANES = 1;
layout(constant_id = 16) const uint WARPS = 4;
layout(constant_id = 17) const uint SIDE = 16;
layout(constant_id = 18) const bool OFFSETS = false;
layout(constant_id = 19) const uint SHARED = 1;       // query heads for each key head where a workgroup takes one of them, GROUP being 1
layout(constant_id = 24) const uint BUFFERS = 1;      // tiles in shared memory; with 2 one is filled while the other is read

const uint M = WARPS * SIDE, FD = WIDTH / SIDE, FN = N / SIDE, BLOCK = 64;
const uint FULL = PLANES * WIDTH / 8, LINE = FULL + 1;     // uvec4 of a line in memory; in shared memory one more, for the banks
const uint LOW = WIDTH / 8;                                // from a line's start to its low halves

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Vectors { uvec4 at; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };

#define COOP_A coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseA>
#define COOP_B coopmat<float16_t, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseB>
#define COOP_SUM coopmat<float, gl_ScopeSubgroup, SIDE, SIDE, gl_MatrixUseAccumulator>
#define ROW_MAJOR gl_CooperativeMatrixLayoutRowMajor
#define COLUMN_MAJOR gl_CooperativeMatrixLayoutColumnMajor

// Eight halves at an address that is a multiple of 16 where `aligned`.
uvec4 fetch(const uint64_t address, const bool aligned) {
    if (PLANES == 2 || aligned) return Vectors(address).at;
    uvec4 value = uvec4(0);
    [[unroll]] for (uint i = 0; i < 8; i++) value[i / 2] |= uint(Halves(address).at[i]) << (16 * (i & 1));
    return value;
}

// Eight halves of a line of an operand; lines from `limit` on repeat the last one: nothing that comes of them is used.
uvec4 fetch_from(const uint64_t operand, const uint stride, const uint line, const uint place, const uint limit, const bool aligned) {
    if (PLANES == 2) return fetch(operand + 16ul * (line * FULL + place), true);              // its lines go on to a multiple of 64
    return fetch(operand + 2ul * (uint64_t(min(line, limit - 1)) * stride + 8 * place), aligned);
}

// The M lines of a workgroup from `first` on into shared memory.
#define LOAD_OWN(operand, stride, first, limit, aligned)                                                                      \
    for (uint v_ = gl_LocalInvocationID.x; v_ < M * FULL; v_ += ALL)                                                           \
        memory[v_ / FULL * LINE + v_ % FULL] = fetch_from(operand, stride, min((first) + v_ / FULL, (limit) - 1), v_ % FULL, limit, aligned);

// Tiles of N lines of two operands: into registers, and from there into shared memory from `stage` on.
const uint TILE = 2 * N * LINE, LOADS = (N * FULL + ALL - 1) / ALL;
uvec4 next_a[LOADS], next_b[LOADS];
#define FETCH_TILE(operand_a, stride_a, aligned_a, operand_b, stride_b, aligned_b, first, limit)                               \
    [[unroll]] for (uint i_ = 0; i_ < LOADS; i_++) {                                                                           \
        const uint v_ = min(i_ * ALL + gl_LocalInvocationID.x, N * FULL - 1);                                                  \
        next_a[i_] = fetch_from(operand_a, stride_a, (first) + v_ / FULL, v_ % FULL, limit, aligned_a);                        \
        next_b[i_] = fetch_from(operand_b, stride_b, (first) + v_ / FULL, v_ % FULL, limit, aligned_b);                        \
    }
#define KEEP_TILE(stage)                                                                                                       \
    [[unroll]] for (uint i_ = 0; i_ < LOADS; i_++) {                                                                           \
        const uint v_ = i_ * ALL + gl_LocalInvocationID.x;                                                                     \
        if (N * FULL % ALL == 0 || v_ < N * FULL) {                                                                            \
            memory[(stage) + v_ / FULL * LINE + v_ % FULL] = next_a[i_];                                                       \
            memory[(stage) + N * LINE + v_ / FULL * LINE + v_ % FULL] = next_b[i_];                                            \
        }                                                                                                                      \
    }

bool multiple_of_8(const uint64_t address, const uint a, const uint b) { return ((uint(address) & 15) | ((a | b) & 7)) == 0; }

// x to 11 bits, by its bits: a compiler may take packing and unpacking for nothing.
float high_part(const float x) { return uintBitsToFloat((floatBitsToUint(x) + 0x1000u) & 0xFFFFE000u); }

// The power of two that brings `largest` (bits of a float >= 0) into [2^14, 2^15); of zeros any will do.
float power_for(const uint largest) { return uintBitsToFloat(uint(clamp(268 - int(largest >> 23), 1, 253)) << 23); }
float inverse_power(const float power) { return uintBitsToFloat(0x7F000000u - floatBitsToUint(power)); }

// What undoes the power of two of the block of 64 lines that `line` lies in: it stands behind all lines of the operand.
float undo_of(const uint64_t operand, const uvec3 stride, const uint batch, const uint head, const uint line) {
    if (PLANES == 1) return 1.0;
    const uint blocks = stride.z / stride.y / BLOCK;
    Floats undo = Floats(operand + 2ul * uint64_t(gl_NumWorkGroups.z) * stride.x);
    return undo.at[(batch * (stride.x / stride.z) + head) * blocks + line / BLOCK];
}

// Strides of the gradient of the result: contiguous halves, or lines of as many heads and queries as q has.
uvec3 dout_strides(const uvec3 q_stride, const uint queries, const uint heads) {
    return PLANES == 2 ? q_stride : uvec3(queries * heads * WIDTH, heads * WIDTH, WIDTH);
}

const float LOG2_E = 1.44269504, FLOOR = -1.0e30;     // FLOOR: top of a row that saw nothing yet, far above NEGLIGIBLE
const uint SHIFT = PLANES == 2 ? 15 : 0;              // probabilities are weights times 2^-SHIFT, so that their low halves are normal

// 2^SHIFT e^x (PLANES 2), or 2^x with a relative error of 3e-6, far below the rounding to halves that follows; for x
// up to about 0, and 0 where that is negligible.
float weight_of(const float x) {
    if (PLANES == 2) return exp_below(x, SHIFT);
    precise const float shifted = x + 12582912.0, r = x - (shifted - 12582912.0);
    float p = 1.33335581e-3;
    p = fma(p, r, 9.61812911e-3);
    p = fma(p, r, 5.55041087e-2);
    p = fma(p, r, 0.240226507);
    p = fma(p, r, 0.693147181);
    p = fma(p, r, 1.0);
    return x < -126.0 ? 0.0 : uintBitsToFloat(floatBitsToUint(p) + (floatBitsToUint(shifted) << 23));
}

// One element of a matrix A and its low half.
#define KEEP(high, low, e, value)                                                      \
    if (PLANES == 2) {                                                                 \
        const float value_ = (value), high_ = high_part(value_);                       \
        high[e] = float16_t(high_);                                                    \
        low[e] = float16_t(value_ - high_);                                            \
    } else high[e] = float16_t(value);

// Adds the products of a row's high and low halves with those of a column, all in shared memory at `at` (a COOP_B in `layout_`), to two sums.
#define MULTIPLY(high_sum, low_sum, high, low, at, layout_)                            \
    {                                                                                  \
        COOP_B column_;                                                                \
        coopMatLoad(column_, memory, (at), LINE, layout_);                             \
        high_sum = coopMatMulAdd(high, column_, high_sum);                             \
        if (PLANES == 2) {                                                             \
            COOP_B lower_;                                                             \
            low_sum = coopMatMulAdd(low, column_, low_sum);                            \
            coopMatLoad(lower_, memory, (at) + LOW, LINE, layout_);                    \
            low_sum = coopMatMulAdd(high, lower_, low_sum);                            \
        }                                                                              \
    }

// The sums of a subgroup's rows times `factor` into [batch, limit, heads, WIDTH], as halves or as fp32; `first` is the first row.
#define STORE_ROWS(sums, address, factor, first, limit, head_count)                                                                     \
    [[unroll]] for (uint d_ = 0; d_ < FD; d_++)                                                                                         \
        [[unroll]] for (uint e_ = 0; e_ < EACH; e_++) {                                                                                 \
            const uint row_ = (first) + lane_row + row_of_element(e_);                                                                  \
            const uint64_t at_ = ((uint64_t(batch) * (limit) + row_) * (head_count) + head) * WIDTH + d_ * SIDE + lane_column + column_of_element(e_); \
            const float value_ = sums[d_][e_] * (factor);                                                                               \
            if (row_ < (limit)) {                                                                                                       \
                if (PLANES == 2) Floats((address) + 4ul * at_).at[0] = value_;                                                          \
                else Halves((address) + 2ul * at_).at[0] = uint16_t(BFLOAT ? to_bf16(value_) : to_f16(value_));                         \
            }                                                                                                                           \
        }

// sum += undo * w b: over `count` matrices w (and their low halves) and as many of lines of b in shared memory, from `at` on. fp32 operands
// are added up by themselves first.
#define ADD_PRODUCT(sum_, undo_, w, low_w, count, at)                                  \
    {                                                                                  \
        COOP_SUM high_ = COOP_SUM(0.0);                                                \
        COOP_SUM rest_ = COOP_SUM(0.0);                                                \
        if (PLANES == 1) high_ = sum_;                                                 \
        [[unroll]] for (uint i_ = 0; i_ < (count); i_++)                               \
            MULTIPLY(high_, rest_, w[i_], low_w[i_], (at) + i_ * SIDE * LINE, ROW_MAJOR) \
        if (PLANES == 1) sum_ = high_;                                                 \
        else {                                                                         \
            high_ = high_ + rest_;                                                     \
            [[unroll]] for (uint e_ = 0; e_ < EACH; e_++) sum_[e_] = fma(high_[e_], undo_, sum_[e_]); \
        }                                                                              \
    }

// What is subtracted in the exponent; of a row that saw nothing so much that its weights are 0.
float exponent_base(const float lse) { return lse < FLOOR ? -NEGLIGIBLE : PLANES == 2 ? lse : lse * LOG2_E; }
