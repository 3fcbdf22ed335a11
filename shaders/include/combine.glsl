// Combines one value of each invocation of a workgroup, in an order that depends on the workgroup size alone.
// WIDE = false: the workgroup is one subgroup (CPU drivers: no barrier). WIDE = true: any power of two up to 1024, through shared
// memory, whatever the subgroup size. Before including: declare WIDE, require GL_KHR_shader_subgroup_arithmetic.
shared float partial[WIDE ? 1024 : 1];

float combine(float value, bool by_maximum) {
    if (!WIDE) return by_maximum ? subgroupMax(value) : subgroupAdd(value);
    uint lane = gl_LocalInvocationID.x;
    barrier();
    partial[lane] = value;
    for (uint half_ = gl_WorkGroupSize.x / 2; half_ > 0; half_ /= 2) {
        barrier();
        if (lane < half_) {
            float other = partial[lane + half_];
            partial[lane] = by_maximum ? max(partial[lane], other) : partial[lane] + other;
        }
    }
    barrier();
    return partial[0];
}
