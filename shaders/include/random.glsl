// Philox4x32-10, a counter-based generator (Salmon et al., SC 2011). NumPy twin: hierarchos/kernels/random.py.
#ifndef RANDOM_GLSL
#define RANDOM_GLSL

// Four random words from a counter and a key.
uvec4 philox(uvec4 c, uvec2 key) {
    for (int round_ = 0; round_ < 10; round_++) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, c.x, high0, low0);
        umulExtended(0xCD9E8D57u, c.z, high1, low1);
        c = uvec4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// The random word of one element: word index % 4 of block (index / 4, stream).
uint random_word(const uint index, const uint stream, const uvec2 seed) {
    const uvec4 words = philox(uvec4(index >> 2, stream, 0, 0), seed);
    const uint pick = index & 3;
    return pick == 0 ? words.x : pick == 1 ? words.y : pick == 2 ? words.z : words.w;
}

// x * scale where the random word is at least `drop_below`, else 0.
float dropout_(const float x, const uint index, const uint stream, const uint seed0, const uint seed1, const uint drop_below, const float scale) {
    return random_word(index, stream, uvec2(seed0, seed1)) >= drop_below ? x * scale : 0.0;
}

#endif
