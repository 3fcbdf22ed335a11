#version 460
// Joins the splits of attention_tile.comp:  lse = log sum_s exp(lse_s),  out = sum_s exp(lse_s - lse) out_s.
// Layouts: parts [splits,B,T,Hq,channels], part_lse [splits,B,Hq,T], out [B,T,Hq,channels], lse [B,Hq,T], contiguous.
// One invocation a channel. NumPy twin: attention_reference.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "numerics.glsl"

layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Arguments {
    Floats parts, part_lse;
    Floats outcome, lse;
    uint batch, queries, heads, channels, splits;
};

void main() {
    const uint rows = batch * queries * heads, index = gl_GlobalInvocationID.x, row = index / channels;
    if (row >= rows) return;
    const uint b = row / (queries * heads), t = row / heads % queries, n = (b * heads + row % heads) * queries + t;
    float top = -3.0e38, total = 0.0, sum = 0.0;
    for (uint s = 0; s < splits; s++) top = max(top, part_lse.at[s * rows + n]);
    for (uint s = 0; s < splits; s++) {
        const float part = part_lse.at[s * rows + n], weight = part != -3.0e38 ? exp_(part - top) : 0.0;
        total += weight;
        sum = fma(weight, parts.at[s * rows * channels + index], sum);
    }
    outcome.at[index] = total != 0.0 ? sum / total : 0.0;
    if (index % channels == 0) lse.at[n] = total != 0.0 ? top + log_(total) : -3.0e38;
}
