"""`hierarchos bench`: a row for each workload; why there is no comparison is said once, not below every row."""

import pytest

from pipelines.bench import command


@pytest.mark.parametrize("reasons, told", [(("not there", "not there"), 1), (("killed", "not there"), 2), ((None, None), 0)])
def test_a_reason_is_said_once(device, capsys, monkeypatch, reasons, told):
    left = list(reasons)

    def no_pytorch(*_):
        reason = left.pop(0)
        return {} if reason is None else {"missing": reason}

    monkeypatch.setattr(command, "pytorch", no_pytorch)
    assert command.bench(["mlp", "mlp"], select=str(device.info.index), budget=0.05) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("mlp ") for line in lines) == 2
    assert sum(line.startswith("  ") for line in lines) == told
