"""A case that ends with an error is one that did not pass; the others are run all the same."""
import numpy as np

from hierarchos.graph import program, tuning
from tests.support import use_gpu_kernels
from validation.parity.cases import cases_of
from validation.parity.generation import whole_texts
from validation.parity.jobs import Plan, Worker
from validation.parity.report import kind_of


def test_an_error_is_a_record_that_did_not_pass(monkeypatch, capsys):
    monkeypatch.setattr(Worker, "transformers", lambda self: self.fail)
    monkeypatch.setattr(Worker, "fail", lambda self, case: 1 / 0, raising=False)
    (record,) = Worker(Plan("numpy")).records(cases_of("llama")[0])
    assert not record.passed and record.quantity == "ended with ZeroDivisionError" and kind_of(record.quantity) == "logits"
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_whole_texts_end_where_they_are_told_to():
    class Engine:
        def logits(self, arrays):
            return np.stack([arrays["segments"], arrays["ids"]], axis=-1)

    segments = np.array([[1, 1, 1, 1], [0, 0, 1, 1]], np.int32)
    arrays = {"ids": np.arange(8).reshape(2, 4), "positions": np.arange(8).reshape(2, 4), "segments": segments}
    assert whole_texts(Engine(), arrays, [3, 1]).tolist() == [[1, 2], [1, 6]]


def test_kernels_for_gpus_on_any_device(device, monkeypatch):
    """What `--gpu-kernels` does: the profile that programs are planned with is a GPU's."""
    use_gpu_kernels(monkeypatch, 7)
    profiles = [module.profile_of(device) for module in (program, tuning)]
    assert [(profile.device_class, profile.compute_units) for profile in profiles] == [("gpu", 7)] * 2
