"""Adapters through the pipelines: what `hierarchos finetune` leaves, resume, and the base that it must find again."""
from __future__ import annotations

import json
import shutil

import pytest

from tests.bad_input.conftest import package
from tests.bad_input.table import SHORT

__all__ = ["package"]
WORDS = ("finetune", "model.path=pkg", *SHORT, "train.accumulation=1", "data=jsonl", "data.path=rows.jsonl", "peft.rank=2", "prompt=1 and")


@pytest.fixture
def started(place, package):
    """The folder with a package and rows."""
    shutil.copytree(package, place.path / "pkg")
    place.write("rows.jsonl", '{"prompt": "1 and 1", "completion": " make 2"}\n' * 20)
    return place


def adapter_of(place, run: str) -> bytes:
    return (place.path / run / "model/adapter_model.safetensors").read_bytes()


@pytest.mark.parametrize("kind", ["lora", "pissa"])
def test_a_plan_measures_steps_of_an_adapter_and_leaves_no_run(started, kind):
    ended = started.call("plan", *WORDS, f"peft={kind}", "peft.rank=2", "precision.base=int8")
    assert ended.status == 0 and " ms a step" in ended.out, ended.err
    assert "  base: int8 for 4 weights, " in ended.out and ": saves " in ended.out
    assert not started.runs("finetune")


def test_the_package_of_a_merge_is_where_export_path_says(started):
    assert started.call(*WORDS, "run.dir=run").status == 0
    ended = started.call("merge", "model.path=pkg", "peft.path=run/model", "export.path=merged", "run.dir=merging")
    assert ended.status == 0 and "\nmodel: merged\n" in ended.out, ended.err


def test_a_gguf_file_is_a_base(place):
    """Trained over, talked to and merged as the package that is made of it, which is kept by the file's content."""
    pytest.importorskip("gguf")
    from hierarchos.models.load import load_model
    from tests.convert.test_gguf import write

    write(place.path / "small.gguf", "llama", "Q8_0")
    place.write("rows.jsonl", '{"text": "12 ships sail at dawn"}\n' * 20)
    base = ("model.path=small.gguf", "generate.max_new_tokens=4")
    ended = place.call("finetune", *base, "data=jsonl", "data.path=rows.jsonl", "train.steps=2", "train.sequence_length=16",
                       "train.batch_size=2", "train.accumulation=1", "precision.base=int8", "run.dir=run")
    assert ended.status == 0 and "model: small.gguf as float32 in outputs/cache/gguf/" in ended.err + ended.out, ended.err
    [kept] = (place.path / "outputs/cache/gguf").iterdir()
    made = kept.stat().st_mtime_ns
    assert place.call("generate", *base, "peft.path=run/model", "prompt=12 ships", "run.dir=wrote").status == 0
    assert place.call("merge", *base, "peft.path=run/model", "export.path=merged", "run.dir=merging").status == 0
    assert load_model(place.path / "merged").model.config == load_model(kept).model.config and kept.stat().st_mtime_ns == made


def test_finetune_leaves_an_adapter_that_the_other_pipelines_take(started):
    ended = started.call(*WORDS, "run.dir=run", "precision.base=int8")
    assert ended.status == 0, ended.err
    names = {path.name for path in (started.path / "run/model").iterdir()}
    assert {"adapter_config.json", "adapter_model.safetensors", "base.json", "tokenizer.json", "generation_config.json"} <= names
    facts = json.loads((started.path / "run/run.json").read_text())["stages"]
    assert facts["train"]["facts"]["parameters"] > 0 and "base: int8 for" in ended.out + ended.err
    merged = started.call("merge", "model.path=pkg", "peft.path=run/model", "export.path=merged", "run.dir=merging")
    assert merged.status == 0 and (started.path / "merged/config.json").is_file()
    used = started.call("generate", "model.path=pkg", "peft.path=run/model", "prompt=1 and", "generate.max_new_tokens=3", "run.dir=using")
    assert used.status == 0, used.err


@pytest.mark.parametrize("kind", ["lora", "pissa"])
def test_a_run_that_was_interrupted_ends_as_one_that_was_not(started, monkeypatch, kind):
    from pipelines.stages.train import ProgressObserver

    assert started.call(*WORDS, f"peft={kind}", "run.dir=whole").status == 0
    stepped = ProgressObserver.stepped

    def interrupted(self, report):
        stepped(self, report)
        if report.step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressObserver, "stepped", interrupted)
    assert started.call(*WORDS, f"peft={kind}", "run.dir=halves").status == 130
    monkeypatch.setattr(ProgressObserver, "stepped", stepped)
    ended = started.call(*WORDS, f"peft={kind}", "run.resume=halves")
    assert ended.status == 0, ended.err
    assert adapter_of(started, "halves") == adapter_of(started, "whole")


def test_a_run_does_not_go_on_over_another_base(started, monkeypatch):
    import numpy as np

    from hierarchos.models.load import load_model, save_model
    from pipelines.stages.train import ProgressObserver

    def interrupted(self, report):
        if report.step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressObserver, "stepped", interrupted)
    assert started.call(*WORDS, "run.dir=run").status == 130
    monkeypatch.undo()
    monkeypatch.chdir(started.path)
    loaded = load_model("pkg")
    values = {name: np.array(value) for name, value in loaded.values().items()}
    values["transformer.ln_f.weight"][0] += 1
    save_model("other", loaded.model, values, companions="pkg")
    shutil.rmtree(started.path / "pkg")
    (started.path / "other").rename(started.path / "pkg")
    ended = started.call(*WORDS, "run.resume=run")
    assert ended.status == 2 and "the weights of the base are not those that this run began with" in ended.err
