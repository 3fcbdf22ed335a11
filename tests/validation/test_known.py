"""Known misses excuse what they say and nothing else."""
from dataclasses import replace

from validation.parity.cases import cases_of
from validation.parity.gates import Record
from validation.parity.known import entries, split

KNOWN = [{"model_type": "llama", "variant": "base", "quantity": "after 10 steps", "device": "llvmpipe", "error": 3e-7, "comparisons": 2,
          "why": "so"}]
MISS = Record("llama", "base", "a.weight after 10 steps, max", 2.5e-7, 1e-7, 2e-7, False, "llvmpipe (LLVM 15)")


def test_a_known_miss_is_known_and_others_are_not():
    others = [replace(MISS, variant="tied"), replace(MISS, quantity="logits"), replace(MISS, error=4e-7), replace(MISS, error=float("nan")),
              replace(MISS, device="NVIDIA H200")]
    assert split([MISS, *others], KNOWN) == ([MISS], others)


def test_more_misses_than_the_entry_says_are_not_known():
    assert split([MISS] * 2, KNOWN) == ([MISS] * 2, [])
    assert split([MISS] * 3, KNOWN) == ([], [MISS] * 3)


def test_the_entries_are_about_variants_that_there_are():
    for entry in entries():
        assert entry["variant"] in [case.name for case in cases_of(entry["model_type"])] and entry["why"]
