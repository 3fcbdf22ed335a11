"""`hierarchos bench coherent_v9`: what is printed, at a size that takes seconds."""

from __future__ import annotations

import json

import pytest

from hierarchos.errors import UserError
from pipelines.bench.coherent import Sizes, bench, figures, lines, prepared
from pipelines.commands.bench import run

SMALL = Sizes(context=16, vocabulary=40, rows=2, length=4, steps=2)


def test_a_step_is_told_without_and_with_its_update(device):
    step, _, first = prepared(SMALL, device)
    found = figures(SMALL, device, step, first, [(0.4, 0.1), (0.2, 0.1), (0.3, 0.1)])
    told = [line.strip() for line in lines(SMALL, found)]
    assert told[4:] == ["0.3000 s  losses and gradients, 75.000 ms a token (of 2 rows at once)", "0.1000 s  AdamW update of all tensors",
                        "0.4000 s  a step with its update, 100.000 ms a token"]
    assert found["step_ms_a_token"] == pytest.approx(100.0) and json.dumps(found)
    step.machine.close()


def test_json_holds_each_step(device, capsys):
    assert bench(SMALL, str(device.info.index), as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["context_dim"] == 16 and len(found["steps_s"]) == 2 and found["step_s"] > 0 and 1.0 < found["loss"] < 9.0


@pytest.mark.parametrize(("words", "message"), [
    (["coherent_v9", "llama256"], "coherent_v9 is measured alone, not beside llama256"),
    (["coherent_v9", "precision=fp16"], "precision=fp16 is not there for coherent_v9: this model is computed in fp32"),
])
def test_what_it_does_not_read_is_refused(words, message):
    with pytest.raises(UserError) as told:
        run(words)
    assert told.value.what == message
