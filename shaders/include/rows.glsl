// What kernels over rows share: one subgroup walks a row, its lanes side by side, with four sums in flight; subgroups take rows in turn.
//
// Memory access on Mesa 22.3's software driver is four times faster where three things hold (it then extracts 32-bit offsets instead of a
// 64-bit address vector): push constants, addresses above all, are copied to variables before the loop; main has no early return
// before it; and every access in the loop has an offset of its own, used once: `i + zero`, `i + 2 * zero` with a push constant
// `zero` that is 0, which the compiler cannot know.
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
