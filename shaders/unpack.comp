#version 460
// Frozen weights from a narrow format to float: target[32 b + i] = value i of block b. One invocation a block.
//   format 0 fp16   16 words of two halves                      1 bf16   16 words of two halves
//   format 2 int8   word 0: scale s (float), 8 words of four signed bytes q:           s q
//   format 3 int4   word 0: halves d, m (d below), 4 words of eight unsigned nibbles q: d q + m
// Values lie in order, the lowest bits first. Every result is rounded once at most. Layouts: packed u32 [blocks, words of a block],
// target [count] contiguous; the last block may be cut. NumPy twin: unpacked in kernels/packed.py.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint FORMAT = 0;
layout(push_constant, scalar) uniform Arguments {
    Uints packed;
    Floats target;
    uint count;
};

const uint WORDS = FORMAT < 2 ? 16 : FORMAT == 2 ? 9 : 5;

void main() {
    Uints packed_ = packed;                             // copies from outside the loops: see rows.glsl
    Floats target_ = target;
    const uint blocks = (count + 31) / 32, count_ = count;
    const uint all = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_WorkGroupSize.x;
    const uint first = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    for (uint b = first; b < blocks; b += all) {
        const uint at = b * WORDS;
        float scale = 1, least = 0;
        if (FORMAT == 2)
            scale = uintBitsToFloat(packed_.at[at]);
        if (FORMAT == 3) {
            const vec2 both = unpackHalf2x16(packed_.at[at]);
            scale = both.x;
            least = both.y;
        }
        for (uint i = 0; i < 32; i++) {
            precise float value;
            if (FORMAT < 2) {
                const uint word = packed_.at[at + i / 2];
                if (FORMAT == 0) {
                    const vec2 pair = unpackHalf2x16(word);
                    value = i % 2 == 0 ? pair.x : pair.y;
                } else
                    value = uintBitsToFloat(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
            } else if (FORMAT == 2)
                value = scale * float(bitfieldExtract(int(packed_.at[at + 1 + i / 4]), int(8 * (i % 4)), 8));
            else
                value = scale * float(bitfieldExtract(packed_.at[at + 1 + i / 8], int(4 * (i % 8)), 4)) + least;
            if (32 * b + i < count_)
                target_.at[32 * b + i] = value;
        }
    }
}
