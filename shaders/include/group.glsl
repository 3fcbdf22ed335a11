// The sum of one number of every invocation of a workgroup: subgroups first, then one after the other. Needs `shared float group_[]`.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

shared float group_[128];

float group_sum(const float x) {
    const float part = subgroupAdd(x);
    barrier();
    if (subgroupElect()) group_[gl_SubgroupID] = part;
    barrier();
    float total = 0.0;
    for (uint i = 0; i < gl_NumSubgroups; i++) total += group_[i];
    return total;
}
