#version 460
// Copies 32-bit elements between two strided layouts:
//     target[sum_k i_k * target_stride_k] = source[sum_k i_k * source_stride_k]
// Layout: up to 6 axes, outermost first, unused ones have extent 1; strides in elements, 0 repeats an element of the source.
// Limits: fewer than 2^32 elements in one launch. NumPy twin: numpy.copyto.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Uints source;
    Uints target;
    uint count;
    uint extent[6];
    uint source_stride[6];
    uint target_stride[6];
};

void main() {
    uint index = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (index >= count) return;
    uint rest = index, from = 0, to = 0;
    for (int axis = 5; axis > 0 && rest > 0; axis--) {
        uint outer = rest / extent[axis];
        uint i = rest - outer * extent[axis];
        from += i * source_stride[axis];
        to += i * target_stride[axis];
        rest = outer;
    }
    from += rest * source_stride[0];
    to += rest * target_stride[0];
    target.at[to] = source.at[from];
}
