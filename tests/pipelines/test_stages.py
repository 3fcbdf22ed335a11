"""The real stages together, on a very small model: what a person gets from `hierarchos train`."""
from __future__ import annotations

import json
import shutil

import pytest

from hierarchos.training.metrics import read_metrics, without_timing

SIZE = ["model=gpt2_tiny", "model.config.n_embd=16", "model.config.n_layer=1", "model.config.n_head=2", "tokenizer.vocab_size=300"]
SHORT = ["train.steps=4", "train.batch_size=2", "train.sequence_length=16", "train.eval_every=2", "train.checkpoint_every=1",
         "evaluate.batch_size=2", "generate.max_new_tokens=5"]
ROWS = ["data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3"]
ALL = ["train", *SIZE, *SHORT, *ROWS]


@pytest.fixture
def rows(place):
    pairs = [{"prompt": f"{n} and {n} make", "completion": f" {n + n}, which is twice {n}."} for n in range(40)]
    place.write("rows.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs))
    return place


def told(run) -> dict:
    return json.loads((run / "run.json").read_text(encoding="utf-8"))


def test_train_leaves_a_package_a_score_and_a_text(rows):
    ended = rows.call(*ALL)
    assert ended.status == 0, ended.err
    assert ended.out.splitlines()[0].startswith("device: ")
    [run] = rows.runs("train")
    stages = told(run)["stages"]
    assert list(stages) == ["acquire", "tokenize", "train", "export", "evaluate", "generate"]
    assert {stage["status"] for stage in stages.values()} == {"done"}
    assert all(len(digest) == 64 for digest in told(run)["hashes"].values())
    assert stages["evaluate"]["facts"]["loss"] == pytest.approx(stages["train"]["facts"]["best_loss"], rel=1e-5)
    package = {path.name for path in (run / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json"} <= package
    assert [row["step"] for row in read_metrics(run / "metrics.jsonl") if "learning_rate" in row] == [1, 2, 3, 4]
    assert "memory: " in ended.out and "perplexity " in ended.out and "generate: " in ended.out


def test_interrupted_and_resumed_training_equals_the_unbroken_one(rows, monkeypatch):
    from pipelines.stages.train import ProgressObserver

    assert rows.call(*ALL, "run.dir=whole").status == 0
    shown = ProgressObserver.stepped

    def stop(observer, report):
        shown(observer, report)
        if report.step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressObserver, "stepped", stop)
    assert rows.call(*ALL).status == 130
    monkeypatch.setattr(ProgressObserver, "stepped", shown)
    ended = rows.call("train", "run.resume=latest")
    assert ended.status == 0 and "continued after step 2" in ended.out
    whole, [halves] = rows.path / "whole", rows.runs("train")
    assert without_timing(read_metrics(halves / "metrics.jsonl")) == without_timing(read_metrics(whole / "metrics.jsonl"))
    assert (halves / "model/model.safetensors").read_bytes() == (whole / "model/model.safetensors").read_bytes()


def test_exported_package_is_evaluated_generated_from_and_trained_further(rows):
    assert rows.call(*ALL, "run.dir=first", "prompt=3 and 3", "generate.temperature=0").status == 0
    first = told(rows.path / "first")["stages"]
    package = ["model=local", "model.path=first/model"]
    assert rows.call("generate", *package, "prompt=3 and 3", "generate.max_new_tokens=5", "run.dir=text").status == 0
    assert told(rows.path / "text")["stages"]["generate"]["facts"]["text"] == first["generate"]["facts"]["text"]
    assert rows.call("evaluate", *package, *ROWS, "train.sequence_length=16", "run.dir=score").status == 0
    assert told(rows.path / "score")["stages"]["evaluate"]["facts"]["loss"] == pytest.approx(first["evaluate"]["facts"]["loss"], rel=1e-5)
    tuned = rows.call("finetune", *package, *SHORT, *ROWS, "run.dir=tuned", "train.accumulation=1", "train.learning_rate=1e-3")
    assert tuned.status == 0, tuned.err
    assert told(rows.path / "tuned")["stages"]["train"]["facts"]["best_loss"] < first["train"]["facts"]["best_loss"]


def test_rows_that_move_are_not_tokenized_again(rows):
    stages = "pipeline.stages=[acquire,tokenize]"
    assert rows.call(*ALL, stages).status == 0
    shutil.move(rows.path / "rows.jsonl", rows.path / "moved.jsonl")
    moved = [word.replace("rows.jsonl", "moved.jsonl") for word in ALL]
    assert "tokenize   cached" in rows.call(*moved, stages, "--explain").out
    (rows.path / "moved.jsonl").write_text('{"text": "other"}\n')
    assert "tokenize   runs: changed: inputs.acquire" in rows.call(*moved, stages, "--explain").out


def test_bad_row_stops_the_run_with_its_line(rows):
    with (rows.path / "rows.jsonl").open("a") as file:
        file.write('{"prompt": "a", "completion": null}\n')
    ended = rows.call(*ALL)
    assert ended.status == 2
    assert "rows.jsonl:41" in ended.err and "stopped in tokenize; log: " in ended.err and "nothing was started" not in ended.err
    assert told(rows.runs("train")[0])["status"] == "failed"


def test_skipped_rows_are_counted_in_the_manifest(rows):
    with (rows.path / "rows.jsonl").open("a") as file:
        file.write('{"prompt": "a", "completion": null}\n')
    assert rows.call(*ALL, "data.on_bad_row=skip", "pipeline.stages=[acquire,tokenize]").status == 0
    assert sum(told(rows.runs("train")[0])["stages"]["tokenize"]["facts"]["rows"]["bad_rows"].values()) == 1


def test_loss_that_is_not_a_number_has_status_3_and_says_what_to_do(rows):
    ended = rows.call(*ALL, "train.learning_rate=1e30", "train.max_grad_norm=0", "train.optimizer.name=sgd")
    assert ended.status == 3
    assert "the step was not applied" in ended.err and "a lower train.learning_rate" in ended.err and "Traceback" not in ended.err


def test_kernel_table_is_printed_when_asked_for(rows):
    ended = rows.call(*ALL, "run.profile=true", "pipeline.stages=[acquire,tokenize,train]")
    assert ended.status == 0 and "GPU time of step 2 16:" in ended.out and "kernel" in ended.out


def test_second_copy_of_the_package_is_never_written_over(rows):
    (rows.path / "mine").mkdir()
    ended = rows.call(*ALL, "export.path=mine")
    assert ended.status == 2 and "mine is there already" in ended.err and rows.runs("train") == []


@pytest.mark.parametrize("name", ["llama_tiny", "gpt2_tiny", "mistral_tiny", "qwen2_tiny", "qwen3_tiny"])
def test_every_shipped_model_file_is_one_that_models_accept(place, name):
    ended = place.call("train", f"model={name}", "--explain")
    assert ended.status == 0, ended.err


def test_step_of_more_batches_than_an_epoch_has_is_told(rows):
    ended = rows.call(*ALL, "train.accumulation=500", "pipeline.stages=[acquire,tokenize,train]", "train.steps=1")
    assert ended.status == 0 and "train.accumulation=500 takes more batches than the" in ended.out
