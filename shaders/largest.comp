#version 460
// Largest magnitude of a matrix, in parts: part p of operand z is the largest |x| among the elements that workgroup (p, 0, z) looks at,
// as the bits of a float (so infinity is above all numbers, and NaN above infinity). A matrix has `lines` lines of `length` f32, `step`
// elements apart. Limits: length * lines < 2^32; PARTS workgroups along x. NumPy twin: hierarchos.kernels.gemm_split.largest_reference.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LOCAL = 256;

layout(push_constant, scalar) uniform Arguments {
    uint64_t a, b, parts;
    uint length_a, lines_a, step_a, length_b, lines_b, step_b;
};

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Four { uvec4 at; };
shared uint found[LOCAL];

uint magnitude(const uvec4 v) {
    const uvec4 bits = v & 0x7FFFFFFFu;
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}

void main() {
    const bool second = gl_WorkGroupID.z == 1;
    const uint64_t x = second ? b : a;
    const uint length = second ? length_b : length_a, lines = second ? lines_b : lines_a, step = second ? step_b : step_a;
    const uint parts_here = gl_NumWorkGroups.x, id = gl_LocalInvocationID.x;
    uint largest = 0;
    if (((uint(x) & 15) | (length & 3) | (step & 3)) == 0) {
        const uint fours = length / 4, all = fours * lines, stride = parts_here * LOCAL;
        uint at = gl_WorkGroupID.x * LOCAL + id;
        for (; at + 3 * stride < all; at += 4 * stride) {
            uvec4 v[4];
            [[unroll]] for (uint i = 0; i < 4; i++) {
                const uint place = at + i * stride;
                v[i] = Four(x + 4ul * (uint64_t(place / fours) * step + place % fours * 4)).at;
            }
            [[unroll]] for (uint i = 0; i < 4; i++) largest = max(largest, magnitude(v[i]));
        }
        for (; at < all; at += stride) largest = max(largest, magnitude(Four(x + 4ul * (uint64_t(at / fours) * step + at % fours * 4)).at));
    } else {
        for (uint at = gl_WorkGroupID.x * LOCAL + id; at < length * lines; at += parts_here * LOCAL)
            largest = max(largest, floatBitsToUint(Floats(x + 4ul * (uint64_t(at / length) * step + at % length)).at[0]) & 0x7FFFFFFFu);
    }
    largest = subgroupMax(largest);
    if (subgroupElect()) found[gl_SubgroupID] = largest;
    barrier();
    if (id == 0) {
        for (uint i = 1; i < gl_NumSubgroups; i++) largest = max(largest, found[i]);
        Uints(parts).at[gl_WorkGroupID.z * parts_here + gl_WorkGroupID.x] = largest;
    }
}
