// Loads of LANES words side by side, one a lane, as one vector load on Mesa 22.3's software driver.
//
// That driver makes a loop over the lanes of any load, except of one at an address that is a formula of constants and push constants alone,
// outside of every branch and loop: this becomes a scalar load, and LLVM joins the scalars that lie side by side and go to one lane each.
// UNIFORM_NUMBER makes such a formula of a workgroup's number: an element of a push constant array is taken to be the same in all lanes,
// whatever its index, because Vulkan asks for it. Define LANES before; needs GL_KHR_shader_subgroup_basic.

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Quad { vec4 at; };

// `number` below 4^9, as digits of base 4 from a push constant array that holds 0, 1, 2, 3.
#define DIGIT(number, i, digits) (digits[(number) >> 2 * i & 3] << 2 * i)
#define UNIFORM_NUMBER(number, digits)                                                                      \
    (DIGIT(number, 0, digits) | DIGIT(number, 1, digits) | DIGIT(number, 2, digits) | DIGIT(number, 3, digits) | \
     DIGIT(number, 4, digits) | DIGIT(number, 5, digits) | DIGIT(number, 6, digits) | DIGIT(number, 7, digits) | \
     DIGIT(number, 8, digits))

// Of the LANES floats at `address`: lane l has number l.
float wide(const uint64_t address) {
    vec4 quads[LANES / 4];
    [[unroll]] for (uint i = 0; i < LANES / 4; i++) quads[i] = Quad(address + 16 * i).at;
    float found = quads[0].x;
    [[unroll]] for (uint i = 1; i < LANES; i++) found = mix(found, quads[i / 4][i % 4], gl_SubgroupInvocationID == i);
    return found;
}

// Of the 2 LANES floats at `address`: lane l has numbers 2 l and 2 l + 1.
vec2 wide_pair(const uint64_t address) {
    vec4 quads[LANES / 2];
    [[unroll]] for (uint i = 0; i < LANES / 2; i++) quads[i] = Quad(address + 16 * i).at;
    vec2 found = quads[0].xy;
    [[unroll]] for (uint i = 1; i < LANES; i++) {
        const vec4 quad = quads[i / 2];
        found = mix(found, i % 2 == 0 ? quad.xy : quad.zw, bvec2(gl_SubgroupInvocationID == i));
    }
    return found;
}
