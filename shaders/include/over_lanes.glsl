// Sum over the LANES (4, 8 or 16) lanes of a subgroup, in all of them: lanes furthest apart first. Needs GL_KHR_shader_subgroup_shuffle.
float over_lanes(float v) {
    if (LANES > 8) v += subgroupShuffle(v, gl_SubgroupInvocationID ^ 8);
    if (LANES > 4) v += subgroupShuffle(v, gl_SubgroupInvocationID ^ 4);
    v += subgroupShuffle(v, gl_SubgroupInvocationID ^ 2);
    return v + subgroupShuffle(v, gl_SubgroupInvocationID ^ 1);
}
