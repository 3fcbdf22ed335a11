"""Launchers: the same sweep through joblib, submitit and Ray; a worker that is killed in the middle of a job costs nothing."""
from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from pipelines.sweeping.rows import read_rows
from tests.pipelines.conftest import ROOT


def newest(place) -> list[dict]:
    return read_rows(max(place.path.glob("outputs/sweeps/*"), key=lambda path: path.stat().st_mtime_ns))


@pytest.mark.parametrize("name", ["joblib", "submitit", "ray"])
def test_killed_worker_is_started_again_and_nothing_is_lost(place, monkeypatch, name):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ended = place.call("fake", "-m", "train.learning_rate=1,13,14,2", f"launcher={name}", "sweep.jobs_per_device=2", "sweep.retries=1")
    assert ended.status == 3 and "job 2: its process was killed; it is started again" in ended.out, ended.out + ended.err
    assert [row["exit"] for row in newest(place)] == [0, 3, 0, 0]
    assert sorted((place.path / "outputs/learned.txt").read_text().split()) == ["1.0", "14.0", "2.0"]
    assert len(place.runs()) == 4                                                   # the killed job went on in its own directory
    [log] = place.path.glob("outputs/sweeps/*/jobs/0001.log")
    assert "job 1 failed: ArithmeticError: the loss is not a number at step 7" in log.read_text()
    again = place.call("fake", "-m", "train.learning_rate=1,2")
    assert again.status == 0 and {row["status"] for row in newest(place)} == {"done before"}


@pytest.mark.parametrize("name", ["joblib", "submitit", "ray"])
def test_missing_package_says_what_to_install(place, monkeypatch, name):
    monkeypatch.setattr("pipelines.sweeping.launchers.launcher.find_spec", lambda package: None)
    before = place.files()
    ended = place.call("fake", "-m", "train.learning_rate=1,2", f"launcher={name}")
    assert ended.status == 2 and place.files() == before
    told = [line.strip() for line in ended.err.splitlines()]
    assert told[0].startswith(f"launcher={name} needs {name}, which is not installed")
    assert any(line.startswith(f"try  pip install {name}") and line.endswith("nothing was started") for line in told)


def test_slurm_that_is_not_there_is_told(place):
    pytest.importorskip("submitit")
    ended = place.call("fake", "-m", "train.learning_rate=1,2", "launcher=slurm")
    assert ended.status == 2 and ended.err.startswith("there is no Slurm on this machine: srun is not found")


def test_unknown_option_of_submitit_is_told(place):
    pytest.importorskip("submitit")
    ended = place.call("fake", "-m", "train.learning_rate=1,2", "launcher=submitit", "+launcher.options.tiemout_min=3")
    assert ended.status == 2 and "submitit does not take these options" in ended.err and "launcher.options" in ended.err


def test_launcher_changes_no_job(place):
    assert place.call("fake", "run.dir=one").status == 0
    assert place.call("fake", "run.dir=two", "launcher.cluster=slurm").status == 0
    one, two = (json.loads((place.path / name / "run.json").read_text())["job"] for name in ("one", "two"))
    assert one == two
