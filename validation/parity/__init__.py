"""Compares every architecture with Transformers in float64 (the truth) and in float32 (what PyTorch achieves).

    python -m validation.parity [NAMES] [--device D] [--jobs N] [--json] [--write-docs] [--write-records]
    python -m validation.parity.seeds [NAMES] [--jobs N]          # chooses token ids, by a rule that looks at PyTorch only
    python -m validation.parity.spread [NAMES] [--seed S]         # how often PyTorch, rounded another way, misses its own gates
    python -m validation.parity.portable FOLDER [--jobs N]        # for --cached FOLDER on a machine without torch
    python -m validation.records FILE.json[.gz]                   # keeps what `--json` printed on another machine
    python -m validation.golden_architectures                     # the numbers of the ordinary tests
    python -m validation.architectures [--check]                  # docs/architectures.md from the registry and the records

`asked.py` asks Transformers (`oracle.py`, `results.py`, kept on disk by `cache.py`), `compare.py` runs a case here and judges it by
`gates.py`, `jobs.py` spreads cases over processes, `report.py` writes docs/parity.md.
"""
