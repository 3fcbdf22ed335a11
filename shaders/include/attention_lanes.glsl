// Register blocks of the attention kernels for CPU drivers: each lane owns OWN vectors of channels, and all lanes read the same row.
//
// Such drivers compile a loop and several basic blocks for every load, take some 200 cycles for it whatever the lanes read, and their
// compile time grows with the square of the number of blocks (Mesa 22.3: a kernel with 290 loads and 256 broadcasts in its text takes
// 1.2 s, with 1800 minutes). So one load brings a channel for each lane, which are then broadcast; vectors are walked in chunks, and
// a chunk's registers are picked by selects, which are cheap.
layout(constant_id = 11) const uint OWN = 4;          // rows or keys of a lane
layout(constant_id = 12) const uint CHUNK = 32;       // channels in the text of one loop; a multiple of PIECE

const uint PIECE = 4;                                 // channels of all owned vectors that are loaded or stored together
const uint CHUNKS = (WIDTH + CHUNK - 1) / CHUNK, PADDED = CHUNKS * CHUNK;
const uint VALUE_CHUNKS = (VALUE_WIDTH + CHUNK - 1) / CHUNK, VALUE_PADDED = VALUE_CHUNKS * CHUNK;

// Whether dropout keeps key j of its block of four: KEEP_SCALE or 0.
float keep(uvec4 bits, int j) {
    const uvec2 pair = (j & 2) != 0 ? bits.zw : bits.xy;
    return ((j & 1) != 0 ? pair.y : pair.x) >= DROP_BELOW ? KEEP_SCALE : 0.0;
}

// own[o][d] = source[place[o] + d] * factor for d < width; 0 in the padding.
#define LOAD_OWN(own, padded, width, source, place, factor) \
    [[unroll]] for (uint o = 0; o < OWN; o++) [[unroll]] for (uint d = 0; d < padded; d++) own[o][d] = 0.0; \
    [[dont_unroll]] for (uint i = 0; i < padded / PIECE; i++) \
        [[unroll]] for (uint o = 0; o < OWN; o++) \
            [[unroll]] for (uint u = 0; u < PIECE; u++) { \
                const float loaded = source.at[place[o] + min(i * PIECE + u, width - 1)] * factor; \
                const float x = i * PIECE + u < width ? loaded : 0.0; \
                [[unroll]] for (uint c = 0; c < padded / PIECE; c++) own[o][c * PIECE + u] = c == i ? x : own[o][c * PIECE + u]; \
            }

// target[place[o] + d] = own[o][d] * factor[o] for d < width, where block + o * LANES + lane < count.
#define STORE_OWN(own, padded, width, target, place, factor, block, count) \
    [[dont_unroll]] for (uint i = 0; i < padded / PIECE; i++) \
        [[unroll]] for (uint o = 0; o < OWN; o++) \
            [[unroll]] for (uint u = 0; u < PIECE; u++) { \
                float x = 0.0; \
                [[unroll]] for (uint c = 0; c < padded / PIECE; c++) x = c == i ? own[o][c * PIECE + u] : x; \
                if (block + o * LANES + gl_LocalInvocationID.x < count && i * PIECE + u < width) target.at[place[o] + i * PIECE + u] = x * factor[o]; \
            }

// One element of the chunk a lane: a load is dear, a broadcast is not.
#define PARTS(i, width, source) \
    float part[CHUNK / LANES]; \
    [[unroll]] for (uint p = 0; p < CHUNK / LANES; p++) part[p] = source.at[row_at + min((i * CHUNK + p * LANES) + gl_LocalInvocationID.x, width - 1)];

// result[o] += own[o] . row, the row of `width` channels at `start_at`. Each chunk is summed on its own: smaller rounding errors.
#define DOT_OWN(result, own, padded, width, source, start_at) \
    { const uint row_at = start_at; \
    [[dont_unroll]] for (uint i = 0; i < padded / CHUNK; i++) { \
        PARTS(i, width, source) \
        float partial[OWN]; \
        [[unroll]] for (uint o = 0; o < OWN; o++) partial[o] = 0.0; \
        [[unroll]] for (uint u = 0; u < CHUNK; u++) { \
            const float x = subgroupBroadcast(part[u / LANES], u % LANES); \
            [[unroll]] for (uint o = 0; o < OWN; o++) { \
                float y = own[o][u]; \
                [[unroll]] for (uint c = 1; c < padded / CHUNK; c++) y = c == i ? own[o][c * CHUNK + u] : y; \
                partial[o] = fma(y, x, partial[o]); \
            } \
        } \
        [[unroll]] for (uint o = 0; o < OWN; o++) result[o] += partial[o]; \
    } }

// own[o] += weight[o] * row, the row of `width` channels at `start_at`; what is added in the padding is never stored.
#define ADD_OWN(own, weight, padded, width, source, start_at) \
    { const uint row_at = start_at; \
    [[dont_unroll]] for (uint i = 0; i < padded / CHUNK; i++) { \
        PARTS(i, width, source) \
        [[unroll]] for (uint u = 0; u < CHUNK; u++) { \
            const float x = subgroupBroadcast(part[u / LANES], u % LANES); \
            [[unroll]] for (uint o = 0; o < OWN; o++) \
                [[unroll]] for (uint c = 0; c < padded / CHUNK; c++) \
                    own[o][c * CHUNK + u] = padded == CHUNK || c == i ? fma(weight[o], x, own[o][c * CHUNK + u]) : own[o][c * CHUNK + u]; \
        } } }
