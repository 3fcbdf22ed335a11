// The activations that a matrix product can apply to its result; `kind` is an index into graph.ops.matmul.ACTIVATIONS.
float activate(const uint kind, const float x) {
    if (kind == 1) return max(x, 0.0);
    if (kind == 2) return silu_(x);
    if (kind == 3) return gelu_(x);
    if (kind == 4) return gelu_tanh_(x);
    return x;
}
