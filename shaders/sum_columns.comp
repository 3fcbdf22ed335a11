// target[j] = (KEEP ? target[j] : 0) + sum over i of matrix[i * stride + j], rows in order; one column a lane.
// Limits: rows * stride < 2^32. NumPy twin: matrix.sum(axis=0).
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const bool KEEP = false;

layout(push_constant, scalar) uniform Arguments {
    Floats matrix, target;
    uint rows, columns, stride;
};

void main() {
    uint j = gl_GlobalInvocationID.x;
    if (j >= columns) return;
    precise float sum = KEEP ? target.at[j] : 0.0, lost = 0.0;
    for (uint i = 0; i < rows; i++) {
        precise float term = matrix.at[i * stride + j] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    target.at[j] = sum;
}
