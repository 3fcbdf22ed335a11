// target[j] = (KEEP ? target[j] : 0) + sum over i of matrix[i * stride + j], rows in order; one column a lane.
// Limits: rows * stride < 2^32. NumPy twin: matrix.sum(axis=0).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool KEEP = false;

layout(push_constant, scalar) uniform Arguments {
    Floats matrix, target;
    uint rows, columns, stride;
};

void main() {
    uint j = gl_GlobalInvocationID.x;
    if (j >= columns) return;
    float sum = KEEP ? target.at[j] : 0.0, lost = 0.0;
    for (uint i = 0; i < rows; i++) add_exactly(sum, lost, matrix.at[i * stride + j]);
    target.at[j] = sum;
}
