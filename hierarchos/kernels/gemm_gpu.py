"""Matrix products on GPUs."""
from hierarchos.kernels.gemm_cpu import lower as lower_cpu


def lower(product, profile, workspace):
    return lower_cpu(product, profile), workspace
