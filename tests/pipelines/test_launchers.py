"""Launchers: the same sweep through joblib, submitit and Ray; a worker that is killed in the middle of a job costs nothing."""
from __future__ import annotations

import json
import threading
import time
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


@pytest.fixture
def cluster():
    """A Ray of three nodes: a head that takes no jobs, and two that take one each."""
    utils = pytest.importorskip("ray.cluster_utils")
    quick = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    made = utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": quick})
    try:
        made.workers = [made.add_node(num_cpus=1) for _ in range(2)]
        yield made
    finally:
        made.shutdown()


def test_ray_of_two_nodes_loses_a_worker_and_then_a_node_but_no_job(place, cluster):
    """Job 2 kills its worker; the node that carries job 3 is taken away while it runs."""
    def take_node_away() -> None:
        until = time.monotonic() + 120
        while not any(path.read_text() for path in place.path.glob("outputs/fake/*/stages/learn/told")) and time.monotonic() < until:
            time.sleep(0.1)
        taken.extend(node for node in cluster.workers if node.node_id.startswith(log_of(3).split()[2]))
        cluster.remove_node(taken[0], allow_graceful=False)

    def log_of(job: int) -> str:
        return "".join(path.read_text() for path in place.path.glob(f"outputs/sweeps/*/jobs/{job:04d}.log"))

    taken: list = []
    taker = threading.Thread(target=take_node_away)
    taker.start()
    ended = place.call("fake", "-m", "train.learning_rate=1,13,14,17,2,3", "launcher=ray", f"launcher.address={cluster.address}",
                       "sweep.jobs_per_device=2", "sweep.retries=1")
    taker.join()
    assert [f"job {job}: its process was killed; it is started again" in ended.out for job in range(6)] == [
        False, False, True, True, False, False], ended.out + ended.err
    assert ended.status == 3 and [row["exit"] for row in newest(place)] == [0, 3, 0, 0, 0, 0]
    assert sorted((place.path / "outputs/learned.txt").read_text().split()) == ["1.0", "14.0", "17.0", "2.0", "3.0"]
    assert len(place.runs()) == 6 and len({line for job in range(6) for line in log_of(job).splitlines() if "on node" in line}) == 2


def test_ray_that_is_not_there_is_told(place):
    pytest.importorskip("ray")
    ended = place.call("fake", "-m", "train.learning_rate=1,2", "launcher=ray", "launcher.address=127.0.0.1:1")
    assert ended.status == 2 and ended.err.startswith("no Ray answers at 127.0.0.1:1") and not list(place.path.glob("outputs/sweeps/*"))


@pytest.mark.parametrize("name", ["joblib", "submitit", "ray"])
def test_missing_package_says_what_to_install(place, monkeypatch, name):
    monkeypatch.setattr("pipelines.sweeping.launchers.launcher.find_spec", lambda package: None)
    before = place.files()
    ended = place.call("fake", "-m", "train.learning_rate=1,2", f"launcher={name}")
    assert ended.status == 2 and place.files() == before
    told = [line.strip() for line in ended.err.splitlines()]
    assert told[0].startswith(f"launcher={name} needs {name}, which is not installed")
    assert any(line.startswith(f"try  pip install {name}") and line.endswith("nothing was started") for line in told)


def test_slurm_that_is_not_there_is_told(place, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setattr("pipelines.sweeping.launchers.submitit.shutil.which", lambda program: None)
    ended = place.call("fake", "-m", "train.learning_rate=1,2", "launcher=slurm")
    assert ended.status == 2 and ended.err.startswith("there is no Slurm on this machine: srun is not found")


def test_unknown_option_of_submitit_is_told(place):
    pytest.importorskip("submitit")
    ended = place.call("fake", "-m", "train.learning_rate=1,2", "launcher=submitit", "+launcher.options.tiemout_min=3")
    assert not list(place.path.glob("outputs/sweeps/*"))
    assert ended.status == 2 and "submitit does not take these options" in ended.err and "launcher.options" in ended.err


def test_launcher_changes_no_job(place):
    assert place.call("fake", "run.dir=one").status == 0
    assert place.call("fake", "run.dir=two", "launcher.cluster=slurm").status == 0
    one, two = (json.loads((place.path / name / "run.json").read_text())["job"] for name in ("one", "two"))
    assert one == two
