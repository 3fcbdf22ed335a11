"""How far PyTorch's stand-ins are expected to come, from what a few of them did."""

import pytest

pytest.importorskip("torch")

from hierarchos.errors import UserError
from validation.parity import seeds
from validation.parity.cases import case_of
from validation.parity.seeds import DRIFT, agrees, reach


def test_steady_runs_reach_their_mean():
    assert reach([[0.5, 0.2]] * 4) == pytest.approx(0.5)


def test_scattered_runs_are_expected_to_come_further_than_they_did():
    assert reach([[0.1, 0.5], [0.1, 0.5], [0.9, 0.5], [0.1, 0.5]]) == pytest.approx(0.3 + 3 * 0.4)


def test_a_check_allows_for_another_processor_and_no_more():
    stored = {"seed": 3, "share": 1.4}
    assert agrees(stored, {"seed": 3, "share": 1.4 + DRIFT - 0.01}, check=True)
    assert not agrees(stored, {"seed": 3, "share": 1.4 + DRIFT + 0.01}, check=True)
    assert not agrees(stored, {"seed": 4, "share": 0.5}, check=False)
    assert not agrees(None, {"seed": 3, "share": 0.5}, check=True)


def test_a_case_that_no_ids_keep_from_its_kinks_is_named(monkeypatch):
    monkeypatch.setattr(seeds, "own_share", lambda *_: float("inf"))
    with pytest.raises(UserError, match="kinks") as raised:
        seeds.choose(case_of(("opt", "base, 2x7, right padding")))
    assert raised.value.where == "opt: base, 2x7, right padding"
