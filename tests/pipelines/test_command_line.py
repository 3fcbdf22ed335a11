"""What can be typed and what it means; help, version and the small commands."""
from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import yaml

from tests.pipelines.conftest import ROOT

HEAVY = ("hydra", "omegaconf", "numpy", "vulkan", "yaml", "rich", "tokenizers", "torch")


def settings(place, *words) -> dict:
    ended = place.call(*words, "--cfg")
    assert ended.status == 0, ended.err
    return yaml.safe_load(ended.out)


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["--version"], ["devices", "--help"]])
def test_help_comes_within_0_3_seconds_and_imports_nothing_heavy(place, words):
    code = f"import sys; from pipelines.main import main; main({words!r}); print([m for m in {HEAVY!r} if m in sys.modules])"
    best = 9.0
    for _ in range(4):                                  # CPU time of the child: other work on the machine does not count
        before = sum(os.times()[2:4])
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        best = min(best, sum(os.times()[2:4]) - before)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "[]"
    assert best < 0.3


def test_help_lists_every_setting_with_its_default(place):
    from pipelines.settings.schema import settings as table

    out = place.call("train", "--help").out
    assert all(f"  {key}=" in out for key in table())
    assert "  train.learning_rate=0.001\n      The highest rate of the schedule. [above 0]" in out


def test_every_setting_has_a_help_text():
    from pipelines.settings.schema import groups
    from pipelines.settings.schema import settings as table

    assert [key for key, setting in table().items() if not setting.help] == []
    assert [key for key, text in groups().items() if not text] == []


def test_help_of_one_group(place):
    out = place.call("train", "--help", "device").out
    assert out.startswith("device: ") and "train." not in out


def test_plus_and_no_plus_mean_the_same(place):
    typed = [["train.steps=9"], ["+train.steps=9"], ["++train.steps=9"]]
    assert {settings(place, "fake", *words)["train"]["steps"] for words in typed} == {9}


def test_short_forms(place):
    found = settings(place, "fake", "prompt=hi", "device=uhd 630")
    assert found["generate"]["prompt"] == "hi" and found["device"]["select"] == "uhd 630"


TEXTS = ["Hello, world", "a # b", "1e-5", "no", "010", "it's", 'say "x"', "a=b", "(x", "[x", "  ", "{a: b}", "über", "~x", "a\\", "\\'"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_taken_as_it_was_typed(place, text):
    assert settings(place, "fake", f"prompt={text}")["generate"]["prompt"] == text


def test_paths(place):
    found = settings(place, "fake", "data.source=files", "data.path=my rows/a (1).jsonl", "tokenizer.source=file", "tokenizer.path=~/t")
    assert found["data"]["path"] == "my rows/a (1).jsonl" and not found["tokenizer"]["path"].startswith("~")
    assert settings(place, "fake", "data.source=files", "data.path=[a.jsonl, b/*.csv]")["data"]["path"] == ["a.jsonl", "b/*.csv"]


def test_scientific_notation_is_a_number_everywhere(place):
    place.write("configs/experiment/mine.yaml", "train:\n  learning_rate: 1e-5\n")
    assert settings(place, "fake", "experiment=mine")["train"]["learning_rate"] == 1e-5
    assert settings(place, "fake", "train.learning_rate=3e-4")["train"]["learning_rate"] == 3e-4


@pytest.mark.parametrize("header", ["", "# @package _global_\n", "# the command\n# @package _global_\n"])
def test_experiment_applies_with_and_without_its_package_line(place, header):
    place.write("configs/experiment/fast.yaml", f"{header}train: {{steps: 77}}\n")
    assert settings(place, "train", "experiment=fast")["train"]["steps"] == 77


def test_experiment_may_choose_groups_and_what_was_typed_wins(place):
    place.write("configs/experiment/mine.yaml", "defaults:\n  - override /model: gpt2_tiny\ntrain:\n  steps: 7\n")
    assert settings(place, "train", "experiment=mine")["model"]["config"]["model_type"] == "gpt2"
    typed = settings(place, "train", "train.steps=5", "model=qwen2_tiny", "experiment=mine")
    assert typed["model"]["config"]["model_type"] == "qwen2" and typed["train"]["steps"] == 5


def test_group_and_its_key_work_in_either_order(place):
    one = settings(place, "train", "model.config.hidden_size=64", "model=qwen3_tiny")
    two = settings(place, "train", "model=qwen3_tiny", "model.config.hidden_size=64")
    assert one == two and one["model"]["config"]["hidden_size"] == 64


def test_own_defaults_apply_without_being_asked_for(place):
    place.write("configs/local/default.yaml", "device:\n  select: llvmpipe\n")
    assert settings(place, "fake")["device"]["select"] == "llvmpipe"


def test_config_dir_comes_first(place):
    place.write("mine/experiment/far.yaml", "train: {steps: 3}\n")
    assert settings(place, "train", "--config-dir", "mine", "experiment=far")["train"]["steps"] == 3


def test_check_looks_at_every_shipped_file(place):
    ended = place.call("check")
    assert ended.status == 0, ended.err
    assert "hierarchos finetune experiment=instructions: fine" in ended.out


def test_check_tells_what_is_wrong_in_a_file(place):
    path = place.write("configs/experiment/mine.yaml", "trian: {steps: 3}\n")
    ended = place.call("check", str(path))
    assert ended.status == 2 and "configs/experiment/mine.yaml:1" in ended.err


def test_architectures(place):
    families = {row["model_type"]: row for row in json.loads(place.call("architectures", "--json").out)}
    assert {"gpt2", "llama", "mistral", "qwen2", "qwen3"} <= families.keys()
    assert "llava" in families["llama"]["aliases"] and families["llama"]["task"] == "causal"
    lines = place.call("architectures").out.splitlines()
    assert [line.split()[0] for line in lines if line[2] != " "] == list(families)          # long lists of aliases go on below


def test_devices_and_doctor(place):
    assert "usable" in place.call("devices").out
    ended = place.call("doctor")
    assert ended.status == 0 and "verdict: " in ended.out


def test_words_that_a_command_does_not_take(place):
    assert place.call("devices", "--jsn").err.startswith("--jsn is not understood")


def test_defaults_live_in_the_dataclasses_only():
    shared = yaml.safe_load((ROOT / "configs/hierarchos.yaml").read_text())
    assert set(shared) == {"defaults", "hydra"}


def test_shipped_files_are_short_and_begin_with_their_command():
    for path in (ROOT / "configs").rglob("*.yaml"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 60 and lines[0].startswith("# hierarchos "), path


def test_bench_names_the_nearest_workload(place):
    ended = place.call("bench", "mlpp")
    assert ended.status == 2 and "mlpp is not a workload" in ended.err and "did you mean  mlp ?" in ended.err
