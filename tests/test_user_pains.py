"""What people who fine-tune on their own hardware complain about elsewhere, each tried with the small input that triggers it there.

Complaints with a test of their own elsewhere (misspelled keys, sweeps, resuming, bad rows, lost devices ...) are not repeated here."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hierarchos.training.metrics import read_metrics
from tests.bad_input.conftest import package
from tests.bad_input.table import SIZE
from tests.pipelines.conftest import ROOT, place

__all__ = ["package", "place"]
FRESH = ("train", *SIZE, "data=jsonl", "data.path=rows.jsonl", "run.dir=run", "evaluate.batch_size=2")


def write_rows(place, rows: list[dict]) -> None:
    place.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def facts(place, stage: str) -> dict:
    return json.loads((place.path / "run/run.json").read_text(encoding="utf-8"))["stages"][stage]["facts"]


def test_prompts_longer_than_a_sequence_do_not_mask_everything_in_silence(place):
    """A prompt of 40 tokens and a short answer where 16 tokens fit: the answer is trained, and the log says how many rows were cut."""
    write_rows(place, [{"prompt": "word " * 40, "completion": f" {n}"} for n in range(30)])
    words = [*FRESH, "train.sequence_length=16", "data.validation_fraction=0", "pipeline.stages=[acquire,tokenize]"]
    ended = place.call(*words)
    assert ended.status == 0, ended.err
    assert facts(place, "tokenize")["trained_tokens"] >= 60
    kept = place.call(*[word.replace("run.dir=run", "run.dir=cut") for word in words], "data.on_long_row=truncate")
    assert kept.status == 2 and "0 of " in kept.err and "rows.jsonl:1" in kept.err and "cut before its first trained token" in kept.err


def test_model_that_was_trained_to_stop_stops(place):
    """A tokenizer without a pad token and eight short rows: the end token stays in the loss, and generation ends at it."""
    write_rows(place, [{"prompt": f"{n}:", "completion": f" {n}"} for n in range(8)])
    ended = place.call(*FRESH, "data.validation_fraction=0", "data.layout=pad", "train.sequence_length=16", "train.batch_size=8",
                       "train.steps=60", "train.learning_rate=1e-2", "train.checkpoint_every=0", "prompt=3:", "generate.max_new_tokens=24")
    assert ended.status == 0, ended.err
    assert "end tokens trained: 0 <|endoftext|> (8 times)" in ended.out
    assert facts(place, "generate")["stopped"] == "end"


def test_end_of_turn_that_was_trained_is_the_one_that_stops(place):
    """Conversations in ChatML, where the tokenizer's own end token is another: the exported package ends turns with what was trained."""
    write_rows(place, [{"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{n}!"}]} for n in range(20)])
    ended = place.call(*FRESH, "train.steps=1", "train.sequence_length=64", "train.batch_size=2",
                       "pipeline.stages=[acquire,tokenize,train,export]")
    assert ended.status == 0, ended.err
    settings = json.loads((place.path / "run/model/generation_config.json").read_text(encoding="utf-8"))
    tokens = {entry["content"]: entry["id"] for entry in json.loads((place.path / "run/model/tokenizer.json").read_text())["added_tokens"]}
    ends = settings["eos_token_id"] if isinstance(settings["eos_token_id"], list) else [settings["eos_token_id"]]
    assert tokens["<|im_end|>"] in ends and "<|im_end|>" in ended.out


def steps_of(place, run: str) -> list[dict]:
    return [row for row in read_metrics(place.path / run / "metrics.jsonl") if "gradient_norm" in row]


@pytest.mark.parametrize("batch_size, accumulation", [(2, 4), (4, 2), (1, 8), (5, 2)])
def test_accumulation_changes_nothing(place, batch_size, accumulation):
    """Ten rows of very different lengths: 8 x 1 against 2 x 4 and others; the last window, which is not full, included."""
    write_rows(place, [{"text": "word " * (1 + 3 * n)} for n in range(10)])
    words = [*FRESH[:-2], "data.layout=pad", "data.validation_fraction=0", "train.sequence_length=48", "train.shuffle=false",
             "train.epochs=1", "train.dropout=false", "pipeline.stages=[acquire,tokenize,train]"]
    whole = batch_size * accumulation
    assert place.call(*words, f"train.batch_size={whole}", "run.dir=large").status == 0
    assert place.call(*words, f"train.batch_size={batch_size}", f"train.accumulation={accumulation}", "run.dir=small").status == 0
    large, small = (steps_of(place, name) for name in ("large", "small"))
    assert [row["step"] for row in small] == [row["step"] for row in large]
    for one, other in zip(small, large, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)


def test_buffer_beyond_the_device_is_refused_with_numbers(place, monkeypatch):
    """A device that pretends to take buffers of 64 KiB: the refusal says what is too large, by how much, and which setting helps."""
    from dataclasses import replace

    from pipelines import devices

    opened = devices.open_selected

    def with_small_buffers(config):
        device = opened(config)
        device.info = replace(device.info, max_buffer=64 << 10, max_allocation=64 << 10)
        return device

    monkeypatch.setattr(devices, "open_selected", with_small_buffers)
    write_rows(place, [{"text": "word " * 20} for _ in range(10)])
    ended = place.call(*FRESH, "data.validation_fraction=0", "train.batch_size=8", "train.sequence_length=64")
    assert ended.status == 4, ended.err
    assert "64.0 KiB" in ended.err and "train.batch_size" in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize("words", [["train", "--help"], ["train", "train.learning_rte=1"], ["architectures"], ["check"]])
def test_words_that_need_no_device_load_no_vulkan(place, words):
    """A graphics driver is not even loaded where nothing is computed."""
    code = f"import sys; from pipelines.main import main; main({words!r}); sys.exit('vulkan' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=place.path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_run_says_first_where_it_computes(place):
    """The first line of a run names the device, and says slow where it is a software device."""
    write_rows(place, [{"text": "word " * 20} for _ in range(10)])
    stages = "pipeline.stages=[acquire,tokenize,train]"
    ended = place.call(*FRESH, stages, "train.steps=1", "train.sequence_length=16", "train.batch_size=2")
    first = ended.out.splitlines()[0]
    assert first.startswith("device: ") and ("llvmpipe" not in first or first.endswith("(software: slow, for tests)"))
