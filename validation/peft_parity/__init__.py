"""Compares adapters with PEFT in float64 (the truth) and in float32 (what PyTorch achieves), by the gates of `validation.parity`.

    python -m validation.peft_parity [FAMILIES] [--device D] [--case WORD] [--json] [--from FILE] [--write-docs] [--write-records]
"""
