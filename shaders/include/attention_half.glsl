// What the attention kernels on matrix units share: constants, tiles of halves in shared memory, and the way through it that gives lanes
// whole rows. A workgroup has WARPS subgroups; each owns RB blocks of MM rows and meets N columns at a time. Matrices are opaque, so scores
// are stored to the subgroup's own region as fp32 rows, changed there by the lanes (LPR of them for each row) and read back as halves.
layout(constant_id = 0) const uint ALL = 128;
layout(constant_id = 13) const bool BFLOAT = false;
layout(constant_id = 14) const uint N = 32;
layout(constant_id = 15) const uint RB = 1;
layout(constant_id = 16) const uint MM = 16;
layout(constant_id = 17) const uint MN = 16;
layout(constant_id = 18) const uint MK = 16;
layout(constant_id = 19) const uint WARPS = 4;
layout(constant_id = 20) const uint LPR = 2;
layout(constant_id = 21) const bool OFFSETS = false;

const uint M = WARPS * RB * MM;
const uint LINE = WIDTH / 8 + 1;                      // uvec4 of a line of channels; one more than there are, for the banks
const uint SCORE_LINE = N / 4 + 2, HALF_LINE = N / 8 + 1, BLOCK_LINE = MN / 4 + 1;
const uint REGION = MM * SCORE_LINE;                  // uvec4 of fp32 scores of a row block
const uint FD = WIDTH / MN, FK = WIDTH / MK, FN = N / MN, FNK = N / MK;
const uint QUADS = N / 4 / LPR;                       // of four columns, that a lane sees of its row

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Vectors { uvec4 at; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uvec2 at; };

#define COOP_A coopmat<float16_t, gl_ScopeSubgroup, MM, MK, gl_MatrixUseA>
#define COOP_B coopmat<float16_t, gl_ScopeSubgroup, MK, MN, gl_MatrixUseB>
#define COOP_SUM coopmat<float, gl_ScopeSubgroup, MM, MN, gl_MatrixUseAccumulator>

uint narrow(const float x) { return BFLOAT ? to_bf16(x) : to_f16(x); }
uvec2 narrow4(const vec4 v) { return uvec2(narrow(v.x) | narrow(v.y) << 16, narrow(v.z) | narrow(v.w) << 16); }

// The same for probabilities and their gradients, in few instructions: the rounding of f16 is the device's, and a NaN may get lost,
// which shows in the fp32 sums beside them.
uvec2 narrow_fast(const vec4 v) {
    if (!BFLOAT) return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
    const uvec4 bits = floatBitsToUint(v), rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
    return uvec2(rounded.x >> 16 | (rounded.y & 0xFFFF0000u), rounded.z >> 16 | (rounded.w & 0xFFFF0000u));
}

const float LOG2_E = 1.44269504;

// 2^x for x <= 0, of which the part below 2^-126 counts as that; relative error 3e-6, far below the rounding to halves that follows.
float power_of_two(const float x) {
    precise const float bounded = x < -126.0 ? -126.0 : x, shifted = bounded + 12582912.0, r = bounded - (shifted - 12582912.0);
    float p = 1.33335581e-3;
    p = fma(p, r, 9.61812911e-3);
    p = fma(p, r, 5.55041087e-2);
    p = fma(p, r, 0.240226507);
    p = fma(p, r, 0.693147181);
    p = fma(p, r, 1.0);
    return uintBitsToFloat(floatBitsToUint(p) + (floatBitsToUint(shifted) << 23));
}

// Eight halves at an address that is a multiple of 16 where `aligned`, or zeros.
uvec4 fetch(const uint64_t address, const bool there, const bool aligned) {
    uvec4 value = uvec4(0);
    if (there) {
        if (aligned) value = Vectors(address).at;
        else [[unroll]] for (uint i = 0; i < 8; i++) value[i / 2] |= uint(Halves(address).at[i]) << (16 * (i & 1));
    }
    return value;
}

// Lines first .. first + lines of a matrix of halves into shared memory from `start` on; lines from `limit` on are zero.
#define LOAD_LINES(start, lines, address, stride, first, limit, aligned)                                                      \
    for (uint v_ = gl_LocalInvocationID.x; v_ < (lines) * (WIDTH / 8); v_ += ALL) {                                             \
        const uint line_ = v_ / (WIDTH / 8), place_ = v_ % (WIDTH / 8);                                                         \
        memory[(start) + line_ * LINE + place_] =                                                                               \
            fetch((address) + 2ul * (uint64_t((first) + line_) * (stride) + 8 * place_), (first) + line_ < (limit), aligned);    \
    }

bool multiple_of_8(const uint64_t address, const uint a, const uint b) { return ((uint(address) & 15) | ((a | b) & 7)) == 0; }

#define SYNC subgroupMemoryBarrierShared(); subgroupBarrier();

// The sums of a row block times `factor` as halves into [batch, limit, heads, WIDTH]; `row` is the one that this lane stores.
#define STORE_ROWS(sums, address, factor, row, limit, head_count)                                                                \
    [[unroll]] for (uint j_ = 0; j_ < FD; j_++) {                                                                               \
        coopMatStore(sums[j_], memory, region, BLOCK_LINE, gl_CooperativeMatrixLayoutRowMajor);                                 \
        SYNC                                                                                                                    \
        [[unroll]] for (uint i_ = 0; i_ < MN / 4 / LPR; i_++) {                                                                 \
            const uint quad_ = LPR * i_ + side;                                                                                 \
            const vec4 value_ = uintBitsToFloat(memory[region + own_line * BLOCK_LINE + quad_]) * (factor);                     \
            const uint64_t line_ = ((uint64_t(batch) * (limit) + (row)) * (head_count) + head) * WIDTH + j_ * MN + 4 * quad_;   \
            if ((row) < (limit)) Pairs((address) + 2ul * line_).at = narrow4(value_);                                           \
        }                                                                                                                       \
        SYNC                                                                                                                    \
    }
