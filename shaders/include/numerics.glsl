// exp, log, tanh, erf, sin, cos, sqrt, division and what is built of them, with known error on every device: GLSL's own may be off by
// many units in the last place. Measured bounds: tests/kernels/test_numerics.py. Coefficients: own weighted minimax fits, rounded
// to float from the lowest power upwards. `precise` keeps compilers from contracting or reordering where that costs accuracy.
// Where the device's fma is not fused (software drivers), its division and square root are exact already; the corrections below
// notice that (their rounding error e comes out 0) and change nothing.
#ifndef NUMERICS_GLSL
#define NUMERICS_GLSL

#define INFINITY_ uintBitsToFloat(0x7f800000u)
#define NAN_ uintBitsToFloat(0x7fc00000u)

// 2^n for -126 <= n <= 127.
float power_of_two_(const int n) {
    return uintBitsToFloat(uint(n + 127) << 23);
}

// sum += term, compensated (Kahan, 1965): `lost` is what rounding added to the sum, 0 before the first term.
// An infinite term makes the next sum NaN unless `lost` is set to 0.
#define DEFINE_ADD_EXACTLY(T) \
    void add_exactly(inout T sum, inout T lost, const T term) { \
        precise const T corrected = term - lost; \
        precise const T next = sum + corrected; \
        precise const T rounded = (next - sum) - corrected; \
        lost = rounded; \
        sum = next; \
    }
DEFINE_ADD_EXACTLY(float)
DEFINE_ADD_EXACTLY(vec2)
DEFINE_ADD_EXACTLY(vec4)

// a - b, and what its rounding takes off (Knuth, 1969).
float difference(const float a, const float b, out float rest) {
    precise const float d = a - b;
    precise const float taken = d - a;
    precise const float left = (a - (d - taken)) - (b + taken);
    rest = left;
    return d;
}

// a / b, correctly rounded (but where the remainder underflows). The form with fma(-q, b, a) matters: NVIDIA's compiler miscomputes the
// equivalent ((a - q b) - e) / b.
float div_(const float a, const float b) {
    precise const float q = a / b;
    precise const float p = q * b;
    precise const float e = fma(q, b, -p);
    precise const float rest = fma(-q, b, a);
    precise const float inverse_ = 1.0 / b;
    precise const float better = fma(rest, inverse_, q);
    precise const float change = abs(better - q);
    return e != 0.0 && change < abs(q) ? better : q;               // q for NaN, infinities and subnormal quotients
}

// Correctly rounded but for a few arguments whose approximate root has an exact square.
float sqrt_(const float x) {
    precise const float r = sqrt(x);
    precise const float p = r * r;
    precise const float e = fma(r, r, -p);
    precise const float rest = fma(-r, r, x);
    precise const float inverse_ = 0.5 / r;
    precise const float better = fma(rest, inverse_, r);
    precise const float change = abs(better - r);
    return e != 0.0 && change < r ? better : r;
}

// a b - p for p = a b rounded: exact, by halves of 12 bits, since some devices have no fused fma (below 2^115, above 2^-100).
float product_error_(const float a, const float b, const float p) {
    precise const float wide_a = 4097.0 * a, high_a = wide_a - (wide_a - a), low_a = a - high_a;
    precise const float wide_b = 4097.0 * b, high_b = wide_b - (wide_b - b), low_b = b - high_b;
    precise const float error = low_a * low_b - (((p - high_a * high_b) - low_a * high_b) - high_a * low_b);
    return error;
}

float rsqrt_(const float x) {
    return div_(1.0, sqrt_(x));
}

// rsqrt_ and one Newton step from an exact remainder 1 - x y^2: half a unit in the last place instead of up to one and a half.
float rsqrt_exact_(const float x) {
    precise const float y = rsqrt_(x), square = y * y, one = x * square;
    precise const float rest = (1.0 - one) - product_error_(x, square, one) - x * product_error_(y, y, square);
    precise const float better = y + 0.5 * y * rest;
    return abs(better - y) < 1.0e-6 * y ? better : y;              // y for NaN, infinities, zero and the ends of the range
}

// P of exp(r) = 1 + r + r^2 P(r) for |r| <= ln2 / 2.
float exp_polynomial_(const float r) {
    float p = 1.97394722e-4;
    p = fma(p, r, 1.39350875e-3);
    p = fma(p, r, 8.33357126e-3);
    p = fma(p, r, 4.1666463e-2);
    p = fma(p, r, 0.166666657);
    return fma(p, r, 0.5);
}

// x = n ln2 + r, |r| <= ln2 / 2; 2^n in two factors so that subnormal results round once.
float exp_(const float x) {
    const float bounded = clamp(x, -104.0, 89.0);
    precise const float n = floor(bounded * 1.44269504 + 0.5);
    precise const float r = (bounded - n * 0.693359375) + n * 2.12194440e-4;
    precise const float value = 1.0 + fma(r * r, exp_polynomial_(r), r);
    const int whole = int(n), half_ = whole >> 1;
    return isnan(x) ? x : value * power_of_two_(half_) * power_of_two_(whole - half_);
}

// 2^shift exp(x) for x up to about 0, with the error of exp_, and 0 below x = -87 (1.6e-38).
float exp_below(const float x, const uint shift) {
    precise const float shifted = fma(x, 1.44269504, 12582912.0);
    precise const float n = shifted - 12582912.0;
    precise const float r = fma(n, 2.12194440e-4, fma(n, -0.693359375, x));
    const float power = uintBitsToFloat((floatBitsToUint(shifted) << 23) + 0x3f800000u + (shift << 23));
    precise const float value = (1.0 + fma(r * r, exp_polynomial_(r), r)) * power;
    return x < -87.0 ? 0.0 : value;
}

// x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 P(f).
float log_(const float x) {
    const bool tiny = x < 1.17549435e-38;
    const uint bits = floatBitsToUint(tiny ? x * 16777216.0 : x);
    const uint shifted = bits - 0x3f3504f3u;                          // so that the exponent steps at sqrt(1/2)
    precise const float e = float(int(shifted) >> 23) - (tiny ? 24.0 : 0.0);
    precise const float f = uintBitsToFloat((shifted & 0x7fffffu) + 0x3f3504f3u) - 1.0;
    float p = -0.0589330755;
    p = fma(p, f, 0.105443217);
    p = fma(p, f, -0.108162962);
    p = fma(p, f, 0.110559195);
    p = fma(p, f, -0.12427476);
    p = fma(p, f, 0.142834559);
    p = fma(p, f, -0.166691452);
    p = fma(p, f, 0.200001553);
    p = fma(p, f, -0.249999732);
    p = fma(p, f, 0.333333313);
    precise const float square = f * f;
    precise const float small = fma(e, -2.12194440e-4, square * f * p) - 0.5 * square;
    precise const float value = e * 0.693359375 + (f + small);
    if (x > 0.0 && x < INFINITY_) return value;
    return x == 0.0 ? -INFINITY_ : x == INFINITY_ ? x : NAN_;
}

// Below 0.6: x + x^3 P(x^2); above: 1 - 2 / (exp(2|x|) + 1).
float tanh_(const float x) {
    const float a = abs(x), z = x * x;
    float p = 2.19548889e-3;
    p = fma(p, z, -8.2305437e-3);
    p = fma(p, z, 2.172051e-2);
    p = fma(p, z, -5.39500713e-2);
    p = fma(p, z, 0.133332297);
    p = fma(p, z, -0.333333313);
    precise const float near_ = fma(x * z, p, x);
    const float far = 1.0 - 2.0 / (exp_(2.0 * min(a, 10.0)) + 1.0);
    return isnan(x) ? x : a < 0.6 ? near_ : (x < 0.0 ? -far : far);
}

// Below 1: x + x R(x^2); above: 1 - exp(log erfc(|x|)), a polynomial in |x| - 2 up to 4, where erf is 1 in float.
float erf_(const float x) {
    const float a = abs(x), z = x * x, t = min(a, 4.0) - 2.0;
    float r = 7.80690389e-5;
    r = fma(r, z, -7.9978531e-4);
    r = fma(r, z, 5.1871622e-3);
    r = fma(r, z, -2.68533472e-2);
    r = fma(r, z, 0.112835787);
    r = fma(r, z, -0.37612626);
    r = fma(r, z, 0.128379166);
    precise const float near_ = fma(x, r, x);
    float q = -8.54206792e-6;
    q = fma(q, t, 1.68181272e-4);
    q = fma(q, t, -7.16808776e-4);
    q = fma(q, t, 3.55512626e-3);
    q = fma(q, t, -1.64798945e-2);
    q = fma(q, t, -0.923752904);
    q = fma(q, t, -4.41815996);
    q = fma(q, t, -5.36494112);
    const float far = 1.0 - exp_(q);
    return isnan(x) ? x : a < 1.0 ? near_ : (x < 0.0 ? -far : far);
}

// x = n pi/2 + r with pi/2 in four parts of 8-9 bits (the last of 24), so that n * part is exact up to |n| < 2^15.
float reduce_quarter_(const float x, out int quadrant) {
    precise const float n = floor(x * 0.636619772 + 0.5);
    precise const float r = (((x - n * 1.5703125) - n * 4.8351287841796875e-4) - n * 3.1385570764541626e-7) - n * 6.07710063e-11;
    quadrant = abs(n) < 1.0e9 ? int(n) : 0;
    return r;
}

float sine_near_zero_(const float r) {
    const float z = r * r;
    float p = 2.83268014e-6;
    p = fma(p, z, -1.98530717e-4);
    p = fma(p, z, 8.3333794e-3);
    p = fma(p, z, -0.166666672);
    precise const float value = fma(r * z, p, r);
    return value;
}

float cosine_near_zero_(const float r) {
    const float z = r * r;
    float p = 2.44323273e-5;
    p = fma(p, z, -1.38873095e-3);
    p = fma(p, z, 4.16666456e-2);
    precise const float value = 1.0 - fma(z * z, -p, 0.5 * z);
    return value;
}

float sin_(const float x) {
    int quadrant;
    const float r = reduce_quarter_(x, quadrant);
    const float value = (quadrant & 1) == 0 ? sine_near_zero_(r) : cosine_near_zero_(r);
    return (quadrant & 2) == 0 ? value : -value;
}

float cos_(const float x) {
    int quadrant;
    const float r = reduce_quarter_(x, quadrant);
    const float value = (quadrant & 1) == 0 ? cosine_near_zero_(r) : sine_near_zero_(r);
    return ((quadrant + 1) & 2) == 0 ? value : -value;
}

// 1 / (1 + exp(-x)), with small relative error for negative x too.
float sigmoid_(const float x) {
    const float e = exp_(-abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

float silu_(const float x) {
    return x * sigmoid_(x);
}

float gelu_(const float x) {
    return 0.5 * x * (1.0 + erf_(x * 0.707106781));
}

// 0.5 x (1 + tanh(k (x + 0.044715 x^3))) = x sigmoid(2 k (x + 0.044715 x^3)), k = sqrt(2 / pi).
float gelu_tanh_(const float x) {
    return x * sigmoid_(1.59576912 * fma(0.044715 * x, x * x, x));
}

// x^y. Relative error about (2 + |y log x|) 2^-23: exponents that matter (2, 3, 1/2, -1/2, -1) are products and roots instead.
float power_(const float x, const float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    const bool whole = floor(y) == y, odd = whole && abs(y) < 16777216.0 && (int(y) & 1) == 1;
    const float magnitude = x == 0.0 ? (y > 0.0 ? 0.0 : INFINITY_) : exp_(y * log_(abs(x)));
    return x < 0.0 ? (whole ? (odd ? -magnitude : magnitude) : NAN_) : magnitude;
}

#endif
