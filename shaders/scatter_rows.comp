#version 460
// Writes rows into a state at a position that lives on the device (a key/value cache while decoding):
//     state[b, index[b] + i, w] = rows[b, i, w]      rows past the end of the state are dropped
// Layouts: state [B, extent, width] and index i32 [B] contiguous; rows [B, count, width] with element strides of b and i, width
// contiguous; total = B * count * width.
// NumPy twin: hierarchos.kernels.copy.scatter_rows_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Uints state;
    Uints rows;
    Ints index;
    uint total;
    uint count;
    uint extent;
    uint width;
    uint batch_stride;
    uint row_stride;
};

void main() {
    uint element = gl_GlobalInvocationID.x + gl_GlobalInvocationID.y * gl_NumWorkGroups.x * gl_WorkGroupSize.x;
    if (element >= total) return;
    uint row = element / width;
    uint b = row / count;
    uint i = row - b * count;
    int at = index.at[b] + int(i);
    if (at < 0 || at >= int(extent)) return;
    uint w = element - row * width;
    state.at[(b * extent + uint(at)) * width + w] = rows.at[b * batch_stride + i * row_stride + w];
}
