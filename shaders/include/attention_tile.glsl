// Tiles of the attention kernels for GPUs: 16 columns by LANES / 16 lines of invocations; each owns LINES x COLUMNS scores of a tile of
// M x N, and LINES x (channels / 16) sums. Operands pass through shared memory CHUNK channels at a time; lines are padded by four
// floats, so that neither the stores nor the reads of four floats meet in a bank.
layout(constant_id = 13) const uint LINES = 4;
layout(constant_id = 14) const uint COLUMNS = 4;
layout(constant_id = 15) const uint CHUNK = 32;       // channels at a time: a multiple of 16
layout(constant_id = 16) const bool WIDE = false;     // rows of q, k, v and dout start and end at multiples of four floats
layout(constant_id = 17) const bool EXACT = false;    // shorter chains of sums, exponents without rounding

const uint ACROSS = 16, DOWN = LANES / ACROSS, M = DOWN * LINES, N = ACROSS * COLUMNS;
const uint QUADS = CHUNK / 4, PITCH = QUADS + 1, SCORE_PITCH = N / 4 + 1, EACH = CHUNK / ACROSS;
const uint CHUNKS = (WIDTH + CHUNK - 1) / CHUNK, VALUE_CHUNKS = (VALUE_WIDTH + CHUNK - 1) / CHUNK;

// sum + a . b
float add_four(const vec4 a, const vec4 b, const float sum) {
    if (!EXACT) return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
    precise const float two = fma(a.y, b.y, a.x * b.x), others = fma(a.w, b.w, a.z * b.z);
    return sum + (two + others);
}

// exp(s factor - lse). EXACT: also what rounding takes off the exponent, which is as large as the log-sum-exp, not as the scores.
float probability_of(const float s, const float factor, const float lse) {
    precise const float x = fma(s, factor, -lse);
    const float p = exp_(x);
    if (!EXACT) return p;
    precise const float whole = x + lse;
    precise const float rest = fma(s, factor, -whole);
    return p > 0.0 ? fma(p, rest, p) : p;
}

vec4 load_quad(Floats source, uint at, uint channel, uint width) {
    if (WIDE && (uint64_t(source) & 15) == 0) return channel < width ? Vec4s(source).at[at / 4] : vec4(0.0);
    vec4 x = vec4(0.0);
    [[unroll]] for (uint u = 0; u < 4; u++) if (channel + u < width) x[u] = source.at[at + u];
    return x;
}

// tile[line][channel] = source[place + channel] of chunk `chunk`, 0 where not `valid`; both are expressions in `line`.
#define LOAD_TILE(tile, lines, source, chunk, width, valid, place) \
    for (uint e = gl_LocalInvocationID.x; e < (lines) * QUADS; e += LANES) { \
        const uint line = e / QUADS, quad = e % QUADS, channel = (chunk) * CHUNK + 4 * quad; \
        tile[line * PITCH + quad] = (valid) ? load_quad(source, (place) + channel, channel, width) : vec4(0.0); \
    }

// score[i][j] += a[line i] . b[column j] over the chunk.
#define DOT_TILE(score, a, b) \
    for (uint quad = 0; quad < QUADS; quad++) { \
        vec4 column[COLUMNS]; \
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) column[j] = b[(across + ACROSS * j) * PITCH + quad]; \
        [[unroll]] for (uint i = 0; i < LINES; i++) { \
            const vec4 x = a[(down + DOWN * i) * PITCH + quad]; \
            [[unroll]] for (uint j = 0; j < COLUMNS; j++) score[i][j] = add_four(x, column[j], score[i][j]); \
        } \
    }

// sum[i][first + u] += sum over columns n of weight[line i][n] * b[n][channel across + 16 u].
#define ADD_TILE(sum, first, weight, b) \
    for (uint quad = 0; quad < N / 4; quad++) { \
        float x[EACH][4]; \
        [[unroll]] for (uint n = 0; n < 4; n++) \
            [[unroll]] for (uint u = 0; u < EACH; u++) x[u][n] = b[(4 * quad + n) * PITCH + across / 4 + 4 * u][across % 4]; \
        [[unroll]] for (uint i = 0; i < LINES; i++) { \
            const vec4 w = weight[(down + DOWN * i) * SCORE_PITCH + quad]; \
            [[unroll]] for (uint u = 0; u < EACH; u++) \
                sum[i][(first) + u] = add_four(w, vec4(x[u][0], x[u][1], x[u][2], x[u][3]), sum[i][(first) + u]); \
        } \
    }

// weight[line i][column j] = value[i][j].
#define STORE_SCORES(weight, value) \
    [[unroll]] for (uint i = 0; i < LINES; i++) \
        [[unroll]] for (uint j = 0; j < COLUMNS; j++) { \
            const uint n = across + ACROSS * j; \
            weight[(down + DOWN * i) * SCORE_PITCH + n / 4][n % 4] = value[i][j]; \
        }

// target[place + channel] = sum * factor[i] for the lines that are `valid`; both are expressions in `line`.
#define STORE_SUMS(sum, chunks, target, width, valid, place, factor) \
    [[unroll]] for (uint i = 0; i < LINES; i++) { \
        const uint line = down + DOWN * i; \
        if (valid) { \
            const uint start_at = place; \
            [[unroll]] for (uint c = 0; c < chunks; c++) \
                [[unroll]] for (uint u = 0; u < EACH; u++) { \
                    const uint channel = c * CHUNK + across + ACROSS * u; \
                    if (channel < width) target.at[start_at + channel] = sum[i][c * EACH + u] * (factor); \
                } \
        } \
    }
