"""The oracle's results are kept: computed once, computed again where the case differs or a file is broken."""
from dataclasses import replace

import numpy as np
import pytest

from validation.parity import cache
from validation.parity.cases import Case

CASE, BATCH = Case("llama", "a", {"vocab_size": 7}), {"ids": np.arange(4)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "FOLDER", tmp_path)
    monkeypatch.setattr(cache, "surroundings", lambda sources: sources)
    return tmp_path


def value(number: float, case=CASE, batch=BATCH, what=("x",)) -> float:
    return float(cache.cached(case, batch, what, lambda: {"x": np.array(number)})["x"])


def test_a_second_run_reads_what_the_first_kept():
    assert [value(1.0), value(2.0)] == [1.0, 1.0]


@pytest.mark.parametrize("other", [{"case": Case("llama", "a", {"vocab_size": 8})}, {"case": replace(CASE, padding="packed")},
                                   {"batch": {"ids": np.arange(4)[::-1].copy()}}, {"what": ("y",)}])
def test_another_case_batch_or_quantity_is_computed(other):
    assert [value(1.0), value(2.0, **other)] == [1.0, 2.0]


def test_a_broken_file_is_computed_again(folder):
    value(1.0)
    (file,) = folder.glob("*/*.npz")
    file.write_bytes(file.read_bytes()[:40])
    assert value(2.0) == 2.0


@pytest.mark.parametrize("double", [True, False])
def test_results_come_back_as_they_were(double):
    pytest.importorskip("torch")
    from validation.parity import results
    from validation.parity.oracle import Results

    one = np.float32(1 / 3) * np.ones(2)
    found = Results(one, np.array(0.5), {"a.w": one, "b": None}, {"s": {"a.w": one}}, {"s": {"a.w": np.array([True, False])}})
    again = results.unflatten(results.flatten(found, double), ("s",))
    assert again.gradients["b"] is None
    assert (again.after["s"]["a.w"] == one).all()
    assert again.logits.dtype == np.float64
    assert not double or again.firm["s"]["a.w"].tolist() == [True, False]
