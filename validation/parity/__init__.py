"""Compares every architecture with Transformers in float64 (the truth) and in float32 (what PyTorch achieves).

    python -m validation.parity [NAMES] [--device D] [--json] [--write-docs]
"""
