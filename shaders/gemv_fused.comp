// Decoding: C [M,N] = activation(scale * P(X) W^T + bias + residual) for up to 8 rows; see include/gemv.glsl for P and the layouts.
//
// Every workgroup makes P(X) in shared memory, then one subgroup a column: lanes stride over K by vec4, one subgroup sum for each row.
// The first column's weights are asked for before the prologue, so that both wait together. The order of summation depends on the
// subgroup size alone. Limits: K a multiple of 4, W and its rows 16-byte aligned (half weights: K a multiple of 8), ROWS * K / 4 = STAGED
// unless DIRECT.
// NumPy twin: hierarchos.kernels.gemv.gemv_reference.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_basic : require
#include "numerics.glsl"
#include "activation.glsl"
#include "gemv.glsl"
layout(constant_id = 5) const uint WEIGHTS = 0;
layout(constant_id = 6) const uint STAGED = 1;
layout(constant_id = 7) const uint AHEAD = 4;           // loads of a lane that are asked for before the prologue
layout(constant_id = 8) const uint SUBGROUPS = 8;
layout(constant_id = 9) const bool DIRECT = false;     // x has no prologue and is read from memory: rows too long for STAGED

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Uvec4s { uvec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Quads { vec4 at[]; };
shared vec4 staged[STAGED];
shared float partial[2 * SUBGROUPS];

float total(float v, const uint which) {
    v = subgroupAdd(v);
    if (gl_SubgroupInvocationID == 0) partial[which * SUBGROUPS + gl_SubgroupID] = v;
    barrier();
    float sum = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) sum += partial[which * SUBGROUPS + i];
    return sum;
}

vec4 four(const uint64_t from, const uint i, const bool aligned) {
    return aligned ? Vec4s(from).at[i / 4] : Quads(from + 4ul * i).at[0];
}

// P(X) into `staged`; x is read once, and each invocation works on its own quads until the last barrier.
void stage() {
    const bool aligned = ((uint(x) | uint(second)) & 15) == 0 && (ldx | lds) % 4 == 0;
    const uint lane = gl_LocalInvocationIndex, across = gl_WorkGroupSize.x, quads = k / 4;
    for (uint row = 0; row < ROWS; row++) {
        vec4 sum = vec4(0.0);
        for (uint q = lane; q < quads; q += across) {
            vec4 v = four(x, row * ldx + 4 * q, aligned);
            if (PROLOGUE == 3) {
                const vec4 other = four(second, row * lds + 4 * q, aligned);
                [[unroll]] for (uint i = 0; i < 4; i++) v[i] = activate(GATE, v[i]);
                v *= other;
            }
            sum = PROLOGUE == 1 ? fma(v, v, sum) : sum + v;
            staged[row * quads + q] = v;
        }
        if (PROLOGUE != 1 && PROLOGUE != 2) continue;
        float mean = 0.0, squares = (sum.x + sum.y) + (sum.z + sum.w);
        if (row > 0) barrier();                         // everyone has read the sums of the row before
        if (PROLOGUE == 2) {
            mean = total(squares, 1) / float(k);
            sum = vec4(0.0);
            for (uint q = lane; q < quads; q += across) {
                const vec4 d = staged[row * quads + q] - mean;
                sum = fma(d, d, sum);
            }
            squares = (sum.x + sum.y) + (sum.z + sum.w);
        }
        const float rstd = rsqrt_(total(squares, 0) / float(k) + eps);
        for (uint q = lane; q < quads; q += across) {
            vec4 v = (staged[row * quads + q] - mean) * rstd;
            if (norm_weight != 0) v *= offset + Vec4s(norm_weight).at[q];
            if (PROLOGUE == 2 && norm_bias != 0) v += Vec4s(norm_bias).at[q];
            staged[row * quads + q] = v;
        }
    }
    barrier();
}

vec4 operand(const uint row, const uint quad) { return DIRECT ? Quads(x + 4ul * (row * ldx)).at[quad] : staged[row * (k / 4) + quad]; }

vec4 unpacked(const uint a, const uint b) {
    if (WEIGHTS == 1) return vec4(unpackHalf2x16(a), unpackHalf2x16(b));
    return uintBitsToFloat(uvec4(a << 16, a & 0xFFFF0000u, b << 16, b & 0xFFFF0000u));
}

void main() {
    const uint lane = gl_SubgroupInvocationID, width = gl_SubgroupSize;
    const uint loads = WEIGHTS == 0 ? k / 4 : k / 8;                            // of 16 bytes in a line
    const uint row_bytes = WEIGHTS == 0 ? 4 * ldw : 2 * ldw;
    const uint first = (gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x) * gl_NumSubgroups + gl_SubgroupID;
    const uint turn = gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumSubgroups;
    uvec4 ahead[AHEAD];
    [[unroll]] for (uint i = 0; i < AHEAD; i++) {
        const uint at = lane + i * width;
        ahead[i] = at < loads && first < n ? Uvec4s(w + uint64_t(first) * row_bytes).at[at] : uvec4(0);
    }
    if (!DIRECT) stage();
    for (uint column = first; column < n; column += turn) {
        vec4 sum[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; i++) sum[i] = vec4(0.0);
        uint at = lane;
        if (column == first) {
            [[unroll]] for (uint i = 0; i < AHEAD; i++) {
                const uint place = min(lane + i * width, loads - 1);             // beyond the end the weights are 0
                if (WEIGHTS == 0) {
                    [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r] = fma(uintBitsToFloat(ahead[i]), operand(r, place), sum[r]);
                } else {
                    [[unroll]] for (uint r = 0; r < ROWS; r++) {
                        sum[r] = fma(unpacked(ahead[i].x, ahead[i].y), operand(r, 2 * place), sum[r]);
                        sum[r] = fma(unpacked(ahead[i].z, ahead[i].w), operand(r, 2 * place + 1), sum[r]);
                    }
                }
            }
            at += AHEAD * width;
        }
        const uint64_t line = w + uint64_t(column) * row_bytes;
        for (; at < loads; at += width) {
            const uvec4 packed = Uvec4s(line).at[at];
            if (WEIGHTS == 0) {
                [[unroll]] for (uint r = 0; r < ROWS; r++) sum[r] = fma(uintBitsToFloat(packed), operand(r, at), sum[r]);
            } else {
                [[unroll]] for (uint r = 0; r < ROWS; r++) {
                    sum[r] = fma(unpacked(packed.x, packed.y), operand(r, 2 * at), sum[r]);
                    sum[r] = fma(unpacked(packed.z, packed.w), operand(r, 2 * at + 1), sum[r]);
                }
            }
        }
        [[unroll]] for (uint i = 0; i < ROWS; i++) {
            const float v = subgroupAdd((sum[i].x + sum[i].y) + (sum[i].z + sum[i].w));
            if (lane == 0) Floats(c).at[i * ldc + column] = epilogue(v, i, column);
        }
    }
}
