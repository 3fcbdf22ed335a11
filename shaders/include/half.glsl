// Half formats as bits in a uint: float16 ("f16") and bfloat16 ("bf16"), to nearest, ties to even, by integer arithmetic, so that every
// device rounds alike. Infinity, NaN and the subnormals of f16 are kept; too large a number becomes infinity.
// NumPy twin: hierarchos.kernels.half.round_to.
float from_bf16(const uint bits) { return uintBitsToFloat(bits << 16); }

uint to_bf16(const float x) {
    const uint bits = floatBitsToUint(x);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? bits >> 16 | 0x40u : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
}

float from_f16(const uint bits) {
    const uint magnitude = bits & 0x7FFFu, sign = (bits & 0x8000u) << 16;
    const uint normal = (magnitude << 13) + (magnitude >= 0x7C00u ? 0x70000000u : 0x38000000u);      // exponent 15 -> 127, 31 -> 255
    const float subnormal = float(magnitude) * 5.9604644775390625e-8;                                // 2^-24
    return uintBitsToFloat((magnitude < 0x400u ? floatBitsToUint(subnormal) : normal) | sign);
}

uint to_f16(const float x) {
    const uint bits = floatBitsToUint(x), magnitude = bits & 0x7FFFFFFFu, sign = bits >> 16 & 0x8000u;
    precise const float above = uintBitsToFloat(magnitude) + 0.5;                                    // the last bit of 0.5 is 2^-24
    const uint subnormal = floatBitsToUint(above) - 0x3F000000u;
    const uint normal = (magnitude + 0xFFFu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    const uint special = magnitude > 0x7F800000u ? 0x7E00u : 0x7C00u;
    return sign | (magnitude < 0x38800000u ? subnormal : magnitude >= 0x47800000u ? special : normal);
}
