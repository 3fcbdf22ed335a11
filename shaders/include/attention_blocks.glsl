// Blocks of the attention kernels for GPUs with large tiles: two sides of 64 invocations, 8 along the walked lines (x) and 8 along the
// owned ones (y). A side multiplies a tile of M owned lines by N walked ones over the channels, CHUNK at a time, then the weights
// that come of it by CHUNK walked lines at a time:
//     block[j][g] += a[m] b[n]   m = 32 g + 4 y + component, n = 32 (j / 4) + 4 x + j % 4
//     sum[4 g + i][e] += w[n][m] b[n][channel]   channel = 32 e + 4 x + component
// Operands pass through shared memory as quads, double buffered; what comes next is fetched into registers meanwhile. A chunk of
// channels lies transposed there, four lines of one channel a quad, at a place mixed with the channel so that stores meet no bank
// twice. Weights lie as w[n][m quad], mixed with n / 4.
layout(constant_id = 13) const uint EACH_M = 8;       // owned lines of an invocation: 4, or 8 (no faster on an H200)
layout(constant_id = 14) const uint CHUNK = 8;        // 8 or 16
layout(constant_id = 15) const bool ALIGNED = false;  // rows of q, k, v and dout start and end at multiples of four floats
layout(constant_id = 16) const bool SPREAD = false;   // subgroups of 32 or more: neighbours read the same quads
layout(constant_id = 18) const bool EXACT = false;    // four products are added up first, then to compensated sums (Kahan, 1965)

const uint SIDE = 64, M = 8 * EACH_M, N = 64, GROUPS_M = EACH_M / 4, LINE_M = M / 4, LINE_N = N / 4, QUADS = CHUNK / 4;
const uint WIDER = WIDTH > VALUE_WIDTH ? WIDTH : VALUE_WIDTH, GROUPS_D = (WIDER + 31) / 32, DEEP = 32 * GROUPS_D, LINE_D = DEEP / 4;
const uint CHUNKS = DEEP / CHUNK, LOADS_A = M * QUADS / SIDE, LOADS_B = N * QUADS / SIDE, LOADS_D = CHUNK * LINE_D / SIDE;
float factor() { return SOFTCAP > 0.0 || SLOPES ? 1.0 : SCALE; }   // of scores that were not bent
const float FLOOR = -1.0e30;                          // top of a row that saw nothing yet: far above NEGLIGIBLE

vec4 block[8][GROUPS_M];
vec4 sum[EACH_M][GROUPS_D], lost[EXACT ? EACH_M : 1][EXACT ? GROUPS_D : 1];   // lost: what rounding added to `sum`

uint mix_channel(uint d) { return d / 4 * (32 / CHUNK) & 7; }
uint place_m(uint d, uint quad) { return d * LINE_M + (quad ^ mix_channel(d)); }
uint place_n(uint d, uint quad) { return d * LINE_N + (quad ^ mix_channel(d)); }
uint place_w(uint n, uint quad) { return n * LINE_M + (quad ^ (n / 4 & 7)); }

uint side_of(uint id) { return id / SIDE; }
uint x_of(uint id) { return SPREAD ? (id & 1) + (id >> 1 & 6) : id % 8; }
uint y_of(uint id) { return SPREAD ? (id % SIDE / 32) * 4 + (id >> 1 & 1) + (id >> 3 & 2) : id % SIDE / 8; }

vec4 exp_below(const vec4 x) { return vec4(exp_below(x.x, 0), exp_below(x.y, 0), exp_below(x.z, 0), exp_below(x.w, 0)); }

// exp(score factor - lse). EXACT: also what rounding takes off the exponent, which is as large as the log-sum-exp, not as the scores.
vec4 probability_of(const vec4 score, const vec4 lse) {
    precise const vec4 x = fma(score, vec4(factor()), -lse);
    if (!EXACT) return exp_below(x);
    precise const vec4 whole = x + lse;
    precise const vec4 rest = fma(score, vec4(factor()), -whole);
    const vec4 p = exp_below(x);
    return mix(p, fma(p, rest, p), greaterThan(p, vec4(0.0)));
}

// Four floats from `channel` on of the row that starts at `row`, 0 beyond `width`.
vec4 load_quad(Floats source, uint row, uint channel, uint width, bool quads) {
    if (quads) {
        if (WIDTH == DEEP && VALUE_WIDTH == DEEP) return Vec4s(uint64_t(source) + 4ul * (row + channel)).at[0];
        return channel < width ? Vec4s(uint64_t(source) + 4ul * (row + channel)).at[0] : vec4(0.0);
    }
    vec4 v = vec4(0.0);
    [[unroll]] for (uint u = 0; u < 4; u++) if (channel + u < width) v[u] = source.at[row + channel + u];
    return v;
}

void store_quad(Floats target, uint row, uint channel, uint width, vec4 v, bool quads) {
    if (quads) {
        if (channel < width) Vec4s(target).at[(row + channel) / 4] = v;
    } else {
        [[unroll]] for (uint u = 0; u < 4; u++) if (channel + u < width) target.at[row + channel + u] = v[u];
    }
}

// Largest or sum over the eight x of a line.
vec4 across_max(vec4 v) {
    v = max(v, subgroupShuffleXor(v, 1));
    v = max(v, subgroupShuffleXor(v, SPREAD ? 4 : 2));
    return max(v, subgroupShuffleXor(v, SPREAD ? 8 : 4));
}

vec4 across_sum(vec4 v) {
    v += subgroupShuffleXor(v, 1);
    v += subgroupShuffleXor(v, SPREAD ? 4 : 2);
    return v + subgroupShuffleXor(v, SPREAD ? 8 : 4);
}

// What dropout multiplies the probabilities of keys 4 quad .. 4 quad + 3 by.
vec4 keep_quad(uint row, uint keys, uint quad, uint stream, uvec2 seed) {
    const uvec4 bits = random_quad(row, keys, quad, stream, seed);
    return mix(vec4(0.0), vec4(KEEP_SCALE), greaterThanEqual(bits, uvec4(DROP_BELOW)));
}

void clear_block() {
    [[unroll]] for (uint j = 0; j < 8; j++) [[unroll]] for (uint g = 0; g < GROUPS_M; g++) block[j][g] = vec4(0.0);
}

void clear_sums() {
    [[unroll]] for (uint i = 0; i < EACH_M; i++) [[unroll]] for (uint e = 0; e < GROUPS_D; e++) {
        sum[i][e] = vec4(0.0);
        if (EXACT) lost[i][e] = vec4(0.0);
    }
}
