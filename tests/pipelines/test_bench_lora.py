"""`hierarchos bench lora`: fine-tuning beside PEFT on the processor in FP32 and in BF16, and who is slower is said (BR39)."""
from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec

import pytest

from hierarchos.errors import UserError
from pipelines.bench import lora_peers, peers
from pipelines.bench.lora import SIZES, SMOLLM2, Size, bench, side
from pipelines.bench.lora_table import DONE, WRONG, lines, tell
from pipelines.commands.bench import run

TINY = Size("a tiny shape", SMOLLM2 | {"num_hidden_layers": 1, "vocab_size": 97, "hidden_size": 24, "intermediate_size": 32,
                                       "num_attention_heads": 3, "num_key_value_heads": 1}, length=16, steps=3)
VERSIONS = {"torch": "2.0", "transformers": "4.0", "peft": "0.1", "threads": 2, "bf16_units": "none"}


def reading(ours: float, fp32: float, bf16: float, **facts) -> dict:
    """A comparison with these seconds of a step."""
    named = (("hierarchos", "fp32", ours), ("PEFT on the processor", "fp32", fp32), ("PEFT on the processor", "bf16", bf16))
    sides = [side(who, precision, [5.0, 4.0], [9.0, seconds]) | VERSIONS for who, precision, seconds in named]
    return {"what": "a shape", "length": 512, "steps": 2, "device": "a device", "driver": "a driver", "software": False, "cores": 2,
            "load": 0.0, "sides": sides, "missing": []} | facts


def test_slower_is_called_slower_beside_each_format(capsys):
    assert tell(reading(3.0, 2.0, 1.0)) == DONE
    told = capsys.readouterr().out.splitlines()
    assert [line.split() for line in told if line.startswith(("hierarchos,", "PEFT on"))] == [
        ["hierarchos,", "FP32", "3.000", "s", "170.7"],
        ["PEFT", "on", "the", "processor,", "FP32", "2.000", "s", "256.0", "1.50x", "0"],
        ["PEFT", "on", "the", "processor,", "BF16", "1.000", "s", "512.0", "3.00x", "0"]]
    assert told[-2:] == ["SLOWER than PEFT on the processor in FP32: a step takes 1.50 times as long here",
                         "SLOWER than PEFT on the processor in BF16: a step takes 3.00 times as long here"]


def test_faster_and_even_are_called_so(capsys):
    assert tell(reading(1.0, 2.0, 1.01)) == DONE
    assert capsys.readouterr().out.splitlines()[-2:] == ["faster than PEFT on the processor in FP32: it takes 2.00 times as long there",
                                                         "as fast as PEFT on the processor in BF16"]


def test_what_spoils_a_reading_is_told(capsys):
    tell(reading(3.0, 2.0, 1.0, load=6.5, software=True))
    told = capsys.readouterr().out
    assert "other work was here (load 6.5 on 2 processors)" in told and told.splitlines()[-1].endswith("training on it is not worth it")


def test_wrong_losses_are_a_failure(capsys):
    found = reading(1.0, 2.0, 2.0)
    found["sides"][1]["losses"] = [5.0, float("nan")]
    assert tell(found) == WRONG and "a loss differs from PEFT's in FP32" in capsys.readouterr().out


def test_bench_asks_peft_for_both_formats(device, capsys, monkeypatch):
    """The other side is faked: what it is asked, and that its answers stand in the table, without PyTorch."""
    asked = []

    def answer(command, **_):
        asked.append(command[command.index("--precision") + 1])
        both = [4.6] * TINY.steps
        told = side("PEFT on the processor", asked[-1], both, both) | VERSIONS
        return subprocess.CompletedProcess(command, 0, f"{json.dumps(told)}\n")

    monkeypatch.setattr(lora_peers, "missing", lambda *names: None)
    monkeypatch.setattr(lora_peers.subprocess, "run", answer)
    bench(TINY, str(device.info.index), as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert asked == ["fp32", "bf16"] and [one["precision"] for one in found["sides"]] == ["fp32", "fp32", "bf16"]
    assert all(one["ratio"] == pytest.approx(found["sides"][0]["step_seconds"] / 4.6) for one in found["sides"][1:])
    assert "PEFT on the processor in BF16: " in "\n".join(lines(found))


def test_without_pytorch_it_says_what_to_install(device, capsys, monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None if name in ("torch", "peft") else find_spec("json"))
    assert bench(TINY, str(device.info.index)) == DONE
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == ("torch, peft are not installed, so nothing is compared; to compare:  pip install torch transformers peft")
    assert [line.split()[:2] for line in told if "tokens/s" not in line and line.startswith("hierarchos")] == [["hierarchos,", "FP32"]]


@pytest.mark.parametrize(("status", "said", "told"), [
    (-9, "", "its process was killed (for want of memory, mostly)"),
    (1, "Traceback\nRuntimeError: no bf16 here\n", "RuntimeError: no bf16 here"),
])
def test_other_side_that_breaks_is_told(tmp_path, monkeypatch, status, said, told):
    monkeypatch.setattr(lora_peers, "missing", lambda *names: None)
    monkeypatch.setattr(lora_peers.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, status, "", said))
    sides, missing = lora_peers.measure(tmp_path, tmp_path, [], tmp_path, 1e-3)
    assert sides == [] and missing == [f"PEFT in {name} gave no figures: {told}" for name in ("FP32", "BF16")]


def test_peft_itself_on_the_processor_in_both_formats(device, capsys):
    for name in lora_peers.PACKAGES:
        pytest.importorskip(name)
    assert bench(TINY, str(device.info.index), as_json=True) == DONE
    found = json.loads(capsys.readouterr().out)
    ours, fp32, bf16 = found["sides"]
    assert fp32["loss_difference"] < 1e-5 < bf16["loss_difference"] < 0.1 and found["missing"] == []
    assert fp32["ratio"] == pytest.approx(ours["step_seconds"] / fp32["step_seconds"]) and len(bf16["losses"]) == TINY.steps


@pytest.mark.parametrize(("words", "message"), [
    (["lora", "llama256"], "lora is measured alone, not beside llama256"),
    (["lora", "model.path="], "model.path= has no value"),
    (["lora", "device="], "device= has no value"),
    (["lora", "--profile"], "--profile is not there for lora"),
    (["lora-smollm2-135m", "model.path=x"], "lora-smollm2-135m is a shape with random weights; it takes no model.path="),
    (["llama256", "model.path=x"], "model.path= is for lora only"),
    (["lora", "model.path=nowhere"], "nowhere"),
])
def test_what_it_does_not_read_is_refused(words, message):
    with pytest.raises(UserError) as told:
        run(words)
    assert message in str(told.value)


def test_all_sizes_are_real_shapes():
    assert {name: size.length for name, size in SIZES.items()} == {"lora": 512, "lora-smollm2-135m": 512, "lora-tinyllama-1.1b": 512}
