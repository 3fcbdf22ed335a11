// What kernels over rows share: one subgroup walks a row, its lanes side by side, with four sums in flight; subgroups take rows in turn.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

#define LANE gl_SubgroupInvocationID
#define LANES gl_SubgroupSize

uint first_row() {
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumSubgroups + gl_SubgroupID;
}

uint row_step() {
    return gl_NumWorkGroups.x * gl_NumWorkGroups.y * gl_NumSubgroups;
}

float sum_row(const vec4 parts) {
    return subgroupAdd((parts.x + parts.y) + (parts.z + parts.w));
}
