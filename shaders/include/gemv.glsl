// Arguments and prologue of products of a few rows with a weight (gemv_fused, gemv_prologue, gemv_cpu):
//
//   C [M,N] = activation(scale * P(X) W^T + bias + residual),  W [N,K], M = ROWS
//   P: 0 x;  1 RMSNorm: x rstd (offset + w);  2 LayerNorm: (x - mean) rstd (offset + w) + b;  3 gated: act(x) second
//
// Leading dimensions in elements; the last axis of every operand has unit stride. Weights: 0 float, 1 half, 2 bfloat16.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint PROLOGUE = 0;
layout(constant_id = 3) const uint GATE = 0;            // the activation of a gate
layout(constant_id = 4) const uint ACTIVATION = 0;

layout(push_constant, scalar) uniform Arguments {
    uint64_t x, second, norm_weight, norm_bias, w, bias, residual, c;      // 0 where absent
    uint n, k, ldx, lds, ldw, ldr, ldc;
    float eps, offset, scale;
    uint digits[4];                                    // 0, 1, 2, 3, for gemv_wide
};

// One element of P(X) from x, once mean and rstd of its row are known.
float prologue(const float value, const uint row, const uint i, const float mean, const float rstd) {
    if (PROLOGUE == 1 || PROLOGUE == 2) {
        const float weight = norm_weight != 0 ? offset + Floats(norm_weight).at[i] : 1.0;
        const float shift = PROLOGUE == 2 && norm_bias != 0 ? Floats(norm_bias).at[i] : 0.0;
        return fma((value - mean) * rstd, weight, shift);
    }
    return PROLOGUE == 3 ? activate(GATE, value) * Floats(second).at[row * lds + i] : value;
}

// An output from its sum.
float epilogue(const float sum, const uint row, const uint column) {
    float v = sum * scale;
    if (bias != 0) v += Floats(bias).at[column];
    if (residual != 0) v += Floats(residual).at[row * ldr + column];
    return activate(ACTIVATION, v);
}
