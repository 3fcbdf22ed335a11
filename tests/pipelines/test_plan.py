"""`hierarchos plan`: what a run would need, with numbers, and nothing trained."""
from __future__ import annotations

import re

from tests.pipelines.test_memory import RUN, small_device

__all__ = ["small_device"]
PLAN = ["plan", *RUN, "train.eval_every=0"]


def parts(out: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        if not line.startswith(" ") and ":" not in line:
            found[line] = []
        elif line.startswith("  ") and found:
            found[list(found)[-1]].append(line.strip())
    return found


def test_plan_tells_stages_rows_steps_memory_disk_and_time(place):
    from tests.pipelines.test_memory import ROWS

    place.write("rows.jsonl", ROWS)
    ended = place.call(*PLAN)
    assert ended.status == 0, ended.err
    found = parts(ended.out)
    assert list(found) == ["stages", "rows", "steps", "memory", "disk", "time"]
    assert [line.split()[0] for line in found["stages"]] == ["acquire", "tokenize", "train"]
    assert found["rows"][0] == "40 used of 40; 28 documents" and found["steps"][0].startswith("2 steps of 2 x 16 tokens")
    assert found["memory"][1].endswith("it fits") and "up to 4 checkpoints" in found["disk"][0]
    assert re.match(r"\d+\.\d ms a step", found["time"][0])
    assert not [name for name in place.files() if "train" in name.split("/")[-1] and name.endswith("run.json")]
    assert "tokenize   cached" in place.call(*PLAN, "--no-probe").out


def test_run_that_does_not_fit_has_three_settings_that_would(small_device):
    ended = small_device.call(*PLAN)
    assert ended.status == 4
    memory = parts(ended.out)["memory"]
    assert "it does NOT fit" in memory[1] and memory[2] == "the same run would need with"
    assert 1 <= len([line for line in memory if line.endswith("fits")]) <= 3 and any("train.optimizer.name=sgd" in line for line in memory)
    assert parts(ended.out)["time"] == ["is measured once the run fits"]


def test_pipeline_without_training_shows_its_stages(place):
    assert "acquire" in place.call("plan", "generate", "prompt=a", "model=hub", "model.repo=a/b").out
