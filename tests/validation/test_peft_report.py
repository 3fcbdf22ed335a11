"""The page about adapters beside PEFT: every quantity has its column, and only whole families get a verdict."""
from __future__ import annotations

import pytest

pytest.importorskip("peft")

from validation.parity.gates import Record
from validation.peft_parity.cases import cases_of
from validation.peft_parity.report import column_of, markdown, verdicts_of

QUANTITIES = {
    "gradient of model.embed_tokens.token_adapter.trainable_tokens_delta": "gradients", "loss": "loss", "logits, disabled": "logits",
    "lm_head.lora_A.weight after 2 steps, eps 0.001, decay 0, max": "2 steps, eps 1e-3",
    "lm_head.lora_A.weight after 2 steps, eps 1e-08, decay 0.01, rms": "2 steps, eps 1e-8, rms",
    "model.embed_tokens.token_adapter.x after 10 steps, eps 1e-08, decay 0.01, max of firm": "10 steps, max",
    "our adapter in PEFT, logits": "files both ways", "PEFT adapter here, parameters": "files both ways",
    "merged package in Transformers, logits": "merge, unmerge", "frozen base after all steps": "names, frozen base",
}


def record(variant: str, quantity: str, passed: bool = True) -> Record:
    return Record("gpt2", variant, quantity, 0.0 if passed else 2e-6, 1e-7, 1e-6, passed, "a device", "a driver")


def test_every_quantity_has_its_column():
    assert {quantity: column_of(quantity) for quantity in QUANTITIES} == QUANTITIES


def test_a_verdict_needs_every_adapter_and_counts_what_failed():
    variants = [f"{case.name}, {case.case.name}" for case in cases_of("gpt2")]
    found = [record(variant, "loss", passed=variant != variants[0]) for variant in variants]
    assert [(v.kind, v.passed, v.total) for v in verdicts_of(found)] == [("lora", len(variants) - 1, len(variants))]
    assert verdicts_of(found[1:]) == []


def test_what_fails_is_bold():
    page = markdown([record("all linear", quantity) for quantity in QUANTITIES] + [record("all linear", "loss", passed=False)])
    assert f"{len(QUANTITIES)} of {len(QUANTITIES) + 1} comparisons pass" in page and "| **2.0e-06 / 1.0e-06** |" in page
