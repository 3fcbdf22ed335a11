// Register blocks of the attention kernels for CPU drivers: each lane owns OWN vectors of channels, and all lanes read the same row.
//
// Such drivers compile a loop and several basic blocks for every load, and their compile time grows with the square of the number of
// blocks. So one load brings two channels for each lane, which subgroupShuffle then hands to all (one instruction; subgroupBroadcast with
// a constant lane is a loop of 60 on Mesa 22.3); wide vectors are walked in chunks, and a chunk's registers are picked by selects.
layout(constant_id = 13) const uint OWN = 4;          // rows or keys of a lane
layout(constant_id = 14) const uint CHUNK = 32;       // channels in the text of one loop; a multiple of CHAIN and of 2 LANES

const uint PIECE = 4;                                 // channels of all owned vectors that are loaded or stored together
const uint CHAIN = 16;                                // channels that are summed on their own
const uint CHUNKS = (WIDTH + CHUNK - 1) / CHUNK, PADDED = CHUNKS * CHUNK;
const uint VALUE_CHUNKS = (VALUE_WIDTH + CHUNK - 1) / CHUNK, VALUE_PADDED = VALUE_CHUNKS * CHUNK;

// Whether dropout keeps key j of its block of four: KEEP_SCALE or 0.
float keep(uvec4 bits, int j) {
    const uvec2 pair = (j & 2) != 0 ? bits.zw : bits.xy;
    return ((j & 1) != 0 ? pair.y : pair.x) >= DROP_BELOW ? KEEP_SCALE : 0.0;
}

// Two floats side by side, as one load or store: what is paid for is a load, not its width. Any address that 4 divides will do on such devices.
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Pair { uint64_t bits; };

// Channels d and d + 1 of the row of `width` channels at `start`; what lies outside is arbitrary.
vec2 load_pair(Floats source, uint start, uint d, uint width) {
    if (width < 2) return vec2(source.at[start]);
    const vec2 v = uintBitsToFloat(unpack32(Pair(uint64_t(source) + 4ul * (start + min(d, width - 2))).bits));
    return width % 2 == 0 || d + 1 < width ? v : v.yx;
}

// own[o][d] = source[place[o] + d] * factor for d < width; 0 in the padding.
#define LOAD_OWN(own, padded, width, source, place, factor) \
    [[unroll]] for (uint o = 0; o < OWN; o++) [[unroll]] for (uint d = 0; d < padded; d++) own[o][d] = 0.0; \
    [[dont_unroll]] for (uint i = 0; i < padded / PIECE; i++) \
        [[unroll]] for (uint o = 0; o < OWN; o++) \
            [[unroll]] for (uint u = 0; u < PIECE; u += 2) { \
                const vec2 loaded = load_pair(source, place[o], i * PIECE + u, width) * factor; \
                [[unroll]] for (uint h = 0; h < 2; h++) { \
                    const float x = i * PIECE + u + h < width ? loaded[h] : 0.0; \
                    [[unroll]] for (uint c = 0; c < padded / PIECE; c++) own[o][c * PIECE + u + h] = c == i ? x : own[o][c * PIECE + u + h]; \
                } \
            }

// target[place[o] + d] = own[o][d] * factor[o] for d < width, where block + o * LANES + lane < count.
#define STORE_OWN(own, padded, width, target, place, factor, block, count) \
    [[dont_unroll]] for (uint i = 0; i < padded / PIECE; i++) \
        [[unroll]] for (uint o = 0; o < OWN; o++) \
            [[unroll]] for (uint u = 0; u < PIECE; u += 2) { \
                vec2 x = vec2(0.0); \
                [[unroll]] for (uint c = 0; c < padded / PIECE; c++) x = c == i ? vec2(own[o][c * PIECE + u], own[o][c * PIECE + u + 1]) : x; \
                x *= factor[o]; \
                const uint d = i * PIECE + u; \
                const bool kept = block + o * LANES + gl_LocalInvocationID.x < count && d < width; \
                if (kept && (width % 2 == 0 || d + 1 < width)) Pair(uint64_t(target) + 4ul * (place[o] + d)).bits = pack64(floatBitsToUint(x)); \
                else if (width % 2 != 0 && kept) target.at[place[o] + d] = x.x; \
            }

// Two channels of each 2 LANES a lane of two rows: a load is dear, a shuffle is not.
#define PARTS(i, width, source, row_at, other_at) \
    vec2 part[CHUNK / (2 * LANES)], other[CHUNK / (2 * LANES)]; \
    [[unroll]] for (uint p = 0; p < CHUNK / (2 * LANES); p++) { \
        part[p] = load_pair(source, row_at, i * CHUNK + (p * LANES + gl_LocalInvocationID.x) * 2, width); \
        other[p] = load_pair(source, other_at, i * CHUNK + (p * LANES + gl_LocalInvocationID.x) * 2, width); \
    }

// Channel u of the chunk, in all lanes.
#define CHANNEL(part, u) subgroupShuffle(part[(u) / (2 * LANES)][(u) % 2], (u) % (2 * LANES) / 2)

// Sums are short, two products first, for smaller rounding errors; `precise` keeps Mesa from making one chain of them.
// result[o].xy += own[o] . row of `width` channels at `start_at`, at `next_at`. Each 16 channels are summed on their own.
#define DOT_OWN(result, own, padded, width, source, start_at, next_at) \
    { const uint row_at = start_at, other_at = next_at; \
    [[dont_unroll]] for (uint i = 0; i < padded / CHUNK; i++) { \
        PARTS(i, width, source, row_at, other_at) \
        precise vec2 partial[OWN]; \
        [[unroll]] for (uint u = 0; u < CHUNK; u += 2) { \
            const vec2 x = vec2(CHANNEL(part, u), CHANNEL(other, u)), y = vec2(CHANNEL(part, u + 1), CHANNEL(other, u + 1)); \
            [[unroll]] for (uint o = 0; o < OWN; o++) { \
                float mine = own[o][u], next = own[o][u + 1]; \
                [[unroll]] for (uint c = 1; c < padded / CHUNK; c++) { \
                    mine = c == i ? own[o][c * CHUNK + u] : mine; \
                    next = c == i ? own[o][c * CHUNK + u + 1] : next; \
                } \
                precise const vec2 both = mine * x + next * y; \
                if (u % CHAIN == 0) partial[o] = both; \
                else partial[o] += both; \
                if (u % CHAIN == CHAIN - 2) result[o] += partial[o]; \
            } \
        } \
    } }

// own[o] = own[o] * factor[o] + weight[o].x * row + weight[o].y * next, rows of `width` channels; what is added in the padding is never stored.
#define ADD_OWN(own, factor, weight, padded, width, source, start_at, next_at) \
    { const uint row_at = start_at, other_at = next_at; \
    [[dont_unroll]] for (uint i = 0; i < padded / CHUNK; i++) { \
        PARTS(i, width, source, row_at, other_at) \
        [[unroll]] for (uint u = 0; u < CHUNK; u++) { \
            const float x = CHANNEL(part, u), y = CHANNEL(other, u); \
            [[unroll]] for (uint o = 0; o < OWN; o++) { \
                precise const float both = weight[o].x * x + weight[o].y * y; \
                [[unroll]] for (uint c = 0; c < padded / CHUNK; c++) { \
                    precise const float more = own[o][c * CHUNK + u] * factor + both; \
                    own[o][c * CHUNK + u] = padded == CHUNK || c == i ? more : own[o][c * CHUNK + u]; \
                } \
            } \
        } } }
