// Arguments of every matrix product: C = activation(scale * op(A) op(B) + bias + residual), for each batch entry z.
// A batch index z is split as z = outer * batch_inner + inner; each operand has a stride for both (0 = shared).
// Leading dimensions and batch strides are in elements; the last axis of a stored matrix has unit stride.
layout(push_constant, scalar) uniform Arguments {
    uint64_t a, b, c, bias, residual;       // bias, residual: 0 when absent
    uint m, n, k, lda, ldb, ldc, ldr;
    uint batch_inner;
    uint a_outer, a_inner, b_outer, b_inner, c_outer, c_inner, r_outer, r_inner;
    float scale;
};

uint64_t batch_entry(uint64_t base, uint outer_stride, uint inner_stride) {
    uint outer = gl_WorkGroupID.z / batch_inner, inner = gl_WorkGroupID.z % batch_inner;
    return base + 4ul * (uint64_t(outer) * outer_stride + uint64_t(inner) * inner_stride);
}
