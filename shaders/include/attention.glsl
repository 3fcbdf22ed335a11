// What every attention kernel shares: the rule, the range of keys that a row sees, and dropout.
// A row is a query of one of the query heads of a group: row = t * GROUP + g, so all rows of a key head read the same keys.
// NumPy twin: hierarchos/kernels/attention_reference.py.
layout(constant_id = 1) const uint LANES = 8;         // invocations of a workgroup
layout(constant_id = 2) const uint WIDTH = 32;        // channels of q and k
layout(constant_id = 3) const uint VALUE_WIDTH = 32;  // channels of v
layout(constant_id = 4) const uint GROUP = 1;         // query heads for each key head
layout(constant_id = 5) const float SCALE = 1.0;
layout(constant_id = 6) const bool CAUSAL = true;
layout(constant_id = 7) const int WINDOW = 0;         // keys seen behind a query, itself among them; as many ahead where not causal; 0: all
layout(constant_id = 8) const bool SEGMENTS = false;
layout(constant_id = 9) const uint DROP_BELOW = 0;    // random bits below this drop a probability; 0: no dropout
layout(constant_id = 10) const float KEEP_SCALE = 1.0;
layout(constant_id = 11) const float SOFTCAP = 0.0;   // bound of the scores before slopes; 0: none
layout(constant_id = 12) const bool SLOPES = false;   // each head's scores fall by its slope for every key further back (ALiBi)

const float NEGLIGIBLE = -3.0e38;                     // score of what is not seen, log-sum-exp of a row that sees nothing

// How far ahead of itself a query may see; without a bound less than what overflows when positions are added.
int ahead() { return CAUSAL ? 0 : WINDOW > 0 ? WINDOW - 1 : 1 << 29; }

// Key positions first .. last (inclusive) that query t may see; empty when last < first.
void key_range(int t, int offset, int keys, out int first, out int last) {
    first = WINDOW > 0 ? max(t + offset - WINDOW + 1, 0) : 0;
    last = min(t + offset + ahead(), keys - 1);
}

// Key u of four that lie spread over first .. last.
uint spread_key(int first, int last, uint u, uint keys) { return uint(clamp(first + (last - first) * int(2 * u + 1) / 8, 0, int(keys) - 1)); }

// Query positions first .. last (inclusive) that may see a key in key_first .. key_last.
void query_range(int key_first, int key_last, int offset, int queries, out int first, out int last) {
    first = max(key_first - offset - ahead(), 0);
    last = WINDOW > 0 ? min(key_last + WINDOW - 1 - offset, queries - 1) : queries - 1;
}

// With EXACT, the backward kernels for GPUs make the probabilities of a row add up to 1: they add up to `mass`, nearly that, since the
// log-sum-exp is rounded, and the more keys a row sees, the larger that is. What they are multiplied by stands, for each row, behind what
// attention_delta.comp fills.
uint wholes(uint all_rows) { return 2 * all_rows + 2 + gl_NumWorkGroups.z; }
float whole_of(float mass) { return abs(mass - 1.0) < 1e-4 ? 2.0 - mass : mass > 0.0 ? 1.0 / mass : 1.0; }   // 1 / mass, without its error

bool bent() { return SOFTCAP > 0.0 || SLOPES; }

// The score of s = SCALE q k for a key `distance` behind the query, and its derivative by s.
float bend(float s, float slope, int distance, out float change) {
    change = 1.0;
    if (SOFTCAP > 0.0) {
        const float t = tanh_(s / SOFTCAP);
        change = fma(-t, t, 1.0);
        s = SOFTCAP * t;
    }
    return SLOPES ? fma(-slope, float(distance), s) : s;
}

// Random bits of keys 4 * quad .. 4 * quad + 3 of score row `row` of [B * Hq * T], in rows of ceil(keys / 4) blocks.
uvec4 random_quad(uint row, uint keys, uint quad, uint stream, uvec2 seed) {
    uint high, low, carry;
    umulExtended(row, (keys + 3) / 4, high, low);
    low = uaddCarry(low, quad, carry);
    return philox(uvec4(low, stream, high + carry, 0), seed);
}

// What dropout multiplies the probability of one key by: KEEP_SCALE or 0.
float keep_factor(uint row, uint keys, uint position, uint stream, uvec2 seed) {
    const uvec4 bits = random_quad(row, keys, position / 4, stream, seed);
    const uvec2 pair = (position & 2) != 0 ? bits.zw : bits.xy;
    return ((position & 1) != 0 ? pair.y : pair.x) >= DROP_BELOW ? KEEP_SCALE : 0.0;
}
