"""What the harnesses recorded decides what is said of an architecture, and the page in docs/ says what they recorded."""
import gzip
import json

import pytest

from hierarchos.errors import UserError
from hierarchos.models import records as kept
from hierarchos.models.records import Verdict
from hierarchos.models.registry import FAMILIES
from validation import architectures, records
from validation.parity.cases import cases_of
from validation.parity.gates import Record


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "records.json"
    path.write_text("{}", encoding="utf-8")
    monkeypatch.setattr(kept, "FILE", path)
    monkeypatch.setattr(records, "FILE", path)
    return path


def record(variant: str, quantity: str, passed: bool = True) -> Record:
    return Record("bitnet", variant, quantity, 0.0, 0.0, 1.0, passed, "a device", "its driver")


def whole(*more: Record) -> list[Record]:
    return [record(case.name, quantity) for case in cases_of("bitnet") for quantity in ("logits", "gradient of a")] + list(more)


def test_the_page_is_current():
    assert architectures.TARGET.read_text(encoding="utf-8") == architectures.page()


def test_records_are_of_architectures_and_kinds_that_exist():
    assert all(verdict.model_type in FAMILIES and verdict.kind in kept.KINDS for verdict in kept.verdicts())


def test_a_status_is_what_passed_completely(file):
    records.remember(records.of_parity(whole(record("base, 2x7, right padding", "loss", passed=False))))
    assert kept.status()["bitnet"] == ["registered", "forward"]
    assert kept.status()["llama"] == ["registered"]


def test_a_run_of_some_variants_says_nothing(file):
    assert records.of_parity([record("base, 2x7, right padding", "logits")]) == []


def test_other_kinds_and_devices_stay(file):
    records.remember([Verdict("llama", "lora", "a", "driver", 2, 2), Verdict("llama", "lora", "b", "driver", 1, 2)])
    records.remember([Verdict("llama", "forward", "a", "driver", 3, 3), Verdict("llama", "lora", "b", "newer", 2, 2)])
    assert json.loads(file.read_text(encoding="utf-8")) == {"llama": {
        "forward": {"a": {"driver": "driver", "passed": 3, "of": 3}},
        "lora": {"a": {"driver": "driver", "passed": 2, "of": 2}, "b": {"driver": "newer", "passed": 2, "of": 2}}}}
    assert kept.status()["llama"] == ["registered", "forward", "LoRA"]


@pytest.mark.parametrize("content", [None, b"{", b'[{"nothing": 1}]', b"\x1f\x8b"], ids=["missing", "cut off", "other", "compressed"])
def test_a_file_that_holds_no_records_is_told(tmp_path, content):
    path = tmp_path / "found.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match="no records") as raised:
        records.read(path)
    assert raised.value.where == str(path)


def test_records_are_read_as_they_were_printed(tmp_path):
    printed = json.dumps([record("base", "loss").as_dict()]).encode()
    for name, content in (("found.json", printed), ("found.json.gz", gzip.compress(printed))):
        (tmp_path / name).write_bytes(content)
        assert records.read(tmp_path / name) == [record("base", "loss")]
