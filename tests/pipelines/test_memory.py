"""A run that needs more memory than the device has is refused before it allocates anything, with what would fit."""
from __future__ import annotations

import json
import re

import pytest

from hierarchos.training.metrics import read_metrics

ROWS = "".join(json.dumps({"text": f"{n} and {n} make {n + n}, which is twice {n}."}) + "\n" for n in range(40))
RUN = ["train", "model=gpt2_tiny", "model.config.n_embd=16", "model.config.n_layer=1", "model.config.n_head=2", "tokenizer.vocab_size=300",
       "data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3", "data.validation_by=documents",
       "train.steps=2", "train.batch_size=2", "train.sequence_length=16",
       "pipeline.stages=[acquire,tokenize,train]"]
LIMIT, FREE = 310 << 10, 300 << 10       # bytes; plain AdamW needs more than that, one moment less does not


@pytest.fixture
def small_device(place, monkeypatch):
    """A place whose device pretends to have 310 KiB, of which 300 are free."""
    from hierarchos.vulkan import budget

    place.write("rows.jsonl", ROWS)
    monkeypatch.setattr(budget, "budget_of", lambda device: budget.Budget(LIMIT, FREE))
    return place


def test_refusal_says_what_is_needed_item_by_item_and_what_would_fit(small_device):
    ended = small_device.call(*RUN)
    assert ended.status == 4
    message = re.sub(r"; .* has ", "; DEVICE has ", re.sub(r"\n  stopped in train; log: .*", "", ended.err))
    assert re.sub(r" +\d+\.\d KiB", " N KiB", message) == """\
training needs N KiB of device memory; DEVICE has N KiB free of N KiB
  weights N KiB, gradients N KiB, moments N KiB, decay groups N KiB, activations N KiB, workspace N KiB, inputs and outputs N KiB, \
constants N KiB
  the same run would need with
    train.recompute=true N KiB
    train.batch_size=1 train.accumulation=2 N KiB
    train.optimizer.name=sgd train.optimizer.momentum=0.9 N KiB  fits
  sgd usually wants another train.learning_rate than adamw
  device.ignore_heap=true tries all the same; nothing was allocated or trained
"""


def test_refused_run_trained_nothing(small_device):
    small_device.call(*RUN)
    [run] = small_device.runs("train")
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    assert not (run / "metrics.jsonl").exists() and not (run / "checkpoints").exists()


def test_advice_that_fits_is_followed_by_a_run(small_device):
    ended = small_device.call(*RUN, "train.optimizer.name=sgd", "train.optimizer.momentum=0.9")
    assert ended.status == 0, ended.err


def test_heap_can_be_ignored_and_that_is_said(small_device):
    ended = small_device.call(*RUN, "device.ignore_heap=true", "run.dir=run")
    assert ended.status == 0, ended.err
    assert re.search(r"memory: that is more than .* has \(300\.0 KiB free of 310\.0 KiB\); tried all the same", ended.out)
    assert len(read_metrics(small_device.path / "run/metrics.jsonl")) >= 2


def test_plan_of_a_run_is_its_peak(small_device):
    assert small_device.call(*RUN, "device.ignore_heap=true", "run.dir=run").status == 0
    facts = json.loads((small_device.path / "run/run.json").read_text())["stages"]["train"]["facts"]
    assert facts["peak_bytes"] == pytest.approx(facts["planned_bytes"], rel=0.01)


def test_generation_and_evaluation_are_refused_too(small_device, monkeypatch):
    from hierarchos.vulkan import budget

    train = [*RUN[:-1], "pipeline.stages=[acquire,tokenize,train,export]", "device.ignore_heap=true", "run.dir=made"]
    assert small_device.call(*train).status == 0
    monkeypatch.setattr(budget, "budget_of", lambda device: budget.Budget(20 << 10, 20 << 10))
    package = ["model=local", "model.path=made/model"]
    wrote = small_device.call("generate", *package, "prompt=3 and 3")
    assert wrote.status == 4 and wrote.err.startswith("generation needs ")
    assert "weights" in wrote.err and "keys and values" in wrote.err and "generate.max_new_tokens" in wrote.err
    talked = small_device.call("chat", *package, 'tokenizer.chat_template="{{ messages[0].content }}"')
    assert talked.status == 4 and talked.err.splitlines()[2].startswith("this conversation needs ")
    assert "weights" in talked.err and "keys and values" in talked.err and "generate.max_new_tokens" in talked.err
    measured = small_device.call("evaluate", *package, *RUN[6:10], "train.sequence_length=16")
    assert measured.status == 4 and measured.err.startswith("evaluation needs ") and "evaluate.batch_size" in measured.err


def test_a_model_of_any_size_is_refused_at_once(small_device, monkeypatch):
    """80 layers of 8192 channels: nothing is planned, for no plan would fit."""
    from hierarchos.training import need

    monkeypatch.setattr(need, "tuned_plan", None)
    large = {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}
    words = [word for word in RUN if not word.startswith("model")]
    ended = small_device.call(*words, "model=llama_tiny", *(f"model.config.{name}={value}" for name, value in large.items()))
    assert ended.status == 4
    assert "training, not counting activations, needs 104" in ended.err
    assert "no batch is small enough, and no optimizer lean enough:\n    train.optimizer.name=sgd" in ended.err


def test_a_package_that_no_device_holds_is_refused_before_its_files_are_read(place, monkeypatch):
    """The weights lie in a file with a hole of 131 GiB in it: hashing it would take minutes."""
    from hierarchos.models.registry import resolve

    large = {"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
             "num_attention_heads": 64, "num_key_value_heads": 8}
    place.write("large/config.json", json.dumps(large))
    header, end = {}, 0
    for spec in resolve(large).parameters:
        header[spec.name] = {"dtype": "BF16", "shape": list(spec.shape), "data_offsets": [end, end + 2 * spec.size]}
        end += 2 * spec.size
    text = json.dumps(header).encode()
    with place.write("large/model.safetensors", "").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    monkeypatch.setattr("pipelines.hashing.hash_file", None)
    place.write("rows.jsonl", ROWS)
    ended = place.call("finetune", "model=local", "model.path=large", "data=jsonl", "data.path=rows.jsonl", "tokenizer.source=train")
    assert ended.status == 4, ended.err
    assert ended.err.startswith("large needs 269141.0 MiB of device memory; ")
    assert ended.err.endswith("  device.ignore_heap=true tries all the same; nothing was read\n")
    assert not place.runs("finetune")
