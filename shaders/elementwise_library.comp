#version 460
// The functions that elementwise kernels are made of. hierarchos/kernels/spirv.py takes them from this shader's SPIR-V and appends a
// generated main, so that generated and handwritten kernels share one implementation. Main here applies function `which` to n floats
// (the tests measure its error) and calls the functions in the order of spirv.FUNCTIONS: that order is how they are found.
// Layouts: x, y, target contiguous f32 [n]. Limits: n < 2^32. NumPy twins: hierarchos/kernels/expression.py.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"
#include "random.glsl"
#include "half.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant, scalar) uniform Arguments {
    Floats x, y, target;
    uint n, which;
};

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i >= n) return;
    const float a = x.at[i], b = y.at[i];
    float result = 0.0;
    switch (which) {
        case 0: result = exp_(a); break;
        case 1: result = log_(a); break;
        case 2: result = tanh_(a); break;
        case 3: result = erf_(a); break;
        case 4: result = sqrt_(a); break;
        case 5: result = rsqrt_(a); break;
        case 6: result = sin_(a); break;
        case 7: result = cos_(a); break;
        case 8: result = sigmoid_(a); break;
        case 9: result = silu_(a); break;
        case 10: result = gelu_(a); break;
        case 11: result = gelu_tanh_(a); break;
        case 12: result = div_(a, b); break;
        case 13: result = power_(a, b); break;
        case 14: result = dropout_(a, i, n, floatBitsToUint(b), which, 0x80000000u, 2.0); break;
        case 15: result = from_f16(floatBitsToUint(a)); break;
        case 16: result = uintBitsToFloat(to_f16(a)); break;
        case 17: result = from_bf16(floatBitsToUint(a)); break;
        case 18: result = uintBitsToFloat(to_bf16(a)); break;
    }
    target.at[i] = result;
}
