"""The Slurm launcher on a real Slurm of two nodes on this machine, without accounting (skipped where Slurm is not installed), and
how it reads a queue."""
from __future__ import annotations

import os
import threading
import time

import pytest

from pipelines.sweeping.launchers import slurm as launcher
from pipelines.sweeping.launchers.launcher import LOST
from tests.pipelines.conftest import ROOT
from tests.pipelines.slurm_cluster import Cluster, missing
from tests.pipelines.test_launchers import newest

SLURM = ("launcher=slurm", "launcher.options.slurm_partition=all", "launcher.options.gpus_per_node=null",
         "launcher.options.cpus_per_task=1")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    pytest.importorskip("submitit")
    if missing():
        pytest.skip(f"Slurm is not installed: there is no {', '.join(missing())} (Debian: slurm-wlm, munge)")
    made = Cluster(tmp_path_factory.mktemp("slurm") / "cluster")
    yield made
    made.close()


@pytest.fixture
def slurm(place, cluster, monkeypatch):
    """A place whose Slurm is the private one."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return place


def once(place, act) -> threading.Thread:
    """Does something as soon as a job waits in its stage."""
    def wait() -> None:
        until = time.monotonic() + 60
        while not any(path.read_text() for path in place.path.glob("outputs/fake/*/stages/learn/told")) and time.monotonic() < until:
            time.sleep(0.1)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def running(cluster) -> list[str]:
    """The numbers of Slurm's jobs that run."""
    return cluster.ask("squeue", "--noheader", "--format=%i", "--states=RUNNING").split()


def learned(place) -> list[str]:
    return sorted((place.path / "outputs/learned.txt").read_text().split())


def test_killed_worker_is_submitted_again_and_nothing_is_lost(slurm):
    ended = slurm.call("fake", "-m", "train.learning_rate=1,13,14,2", *SLURM, "sweep.jobs_per_device=2", "sweep.retries=1")
    assert ended.status == 3 and "job 2: its process was killed; it is started again" in ended.out, ended.out + ended.err
    assert [row["exit"] for row in newest(slurm)] == [0, 3, 0, 0]
    assert learned(slurm) == ["1.0", "14.0", "2.0"] and len(slurm.runs()) == 4
    again = slurm.call("fake", "-m", "train.learning_rate=1,2")
    assert again.status == 0 and {row["status"] for row in newest(slurm)} == {"done before"}


@pytest.mark.parametrize("word", [("--signal=USR2",), ()])         # before a time limit or a preemption; a person's scancel
def test_job_that_slurm_stops_keeps_its_last_step_and_is_submitted_again(slurm, cluster, word):
    stopper = once(slurm, lambda: cluster.ask("scancel", *word, *running(cluster)))
    ended = slurm.call("fake", "-m", "train.learning_rate=17,2", *SLURM, "sweep.jobs_per_device=2", "sweep.retries=1")
    stopper.join()
    assert ended.status == 0 and "job 0: it was stopped from outside; it is started again" in ended.out, ended.out + ended.err
    assert learned(slurm) == ["17.0", "2.0"] and len(slurm.runs()) == 2


def test_node_that_is_taken_away_costs_no_job(slurm, cluster):
    """Where Slurm starts no job again by itself (JobRequeue=0), the sweep does, on the node that is left."""
    taken = []

    def take_node_away() -> None:
        taken.append(cluster.node_of(running(cluster)[0]))
        cluster.take_away(taken[0])

    taker = once(slurm, take_node_away)
    ended = slurm.call("fake", "-m", "train.learning_rate=17,2,3", *SLURM, "sweep.jobs_per_device=1", "sweep.retries=1")
    taker.join()
    try:
        assert "job 0: its process was killed; it is started again" in ended.out, ended.out + ended.err
        assert ended.status == 0 and [row["exit"] for row in newest(slurm)] == [0, 0, 0]
        assert learned(slurm) == ["17.0", "2.0", "3.0"] and len(slurm.runs()) == 3
    finally:
        cluster.start("slurmd", "-D", "-N", taken[0], name=taken[0])
        cluster.wait("two idle nodes", cluster.idle)


def test_what_slurm_refuses_is_told_and_leaves_nothing(slurm):
    ended = slurm.call("fake", "-m", "train.learning_rate=1,2", "launcher=slurm", "launcher.options.gpus_per_node=null")
    assert ended.status == 2 and "Slurm does not take a job: invalid partition specified: gpu" in ended.err, ended.err
    assert not list(slurm.path.glob("outputs/sweeps/*"))


class Handed:
    """What submitit gives for a job, as far as the queue is concerned."""

    def __init__(self, folder, job_id: str):
        self.job_id, self.paths = job_id, self
        self.result_pickle = folder / f"{job_id}.pkl"

    def result(self) -> int:
        return int(self.result_pickle.read_text())


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """A queue whose `squeue` prints the file squeue.txt, or fails while there is none; scancel notes whom it was called for."""
    for name, text in {"squeue": "cat squeue.txt", "scancel": 'echo "$@" >> cancelled.txt'}.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(launcher, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(launcher, "RESULT_SECONDS", 0.0)
    return launcher.Queue()


def test_job_that_left_the_queue_without_a_result_is_lost(queue, tmp_path):
    (tmp_path / "squeue.txt").write_text("7\n8\n")
    job = queue.job(Handed(tmp_path, "7"))
    assert job.poll() is None
    (tmp_path / "squeue.txt").write_text("8\n")
    assert job.poll() == LOST and (tmp_path / "cancelled.txt").read_text() == "7\n"


def test_result_is_taken_while_slurm_still_ends_the_job(queue, tmp_path):
    (tmp_path / "squeue.txt").write_text("7\n")
    (tmp_path / "7.pkl").write_text("3")
    assert queue.job(Handed(tmp_path, "7")).poll() == 3


def test_silent_slurm_loses_no_job_and_is_told_once(queue, tmp_path, capsys):
    job = queue.job(Handed(tmp_path, "7"))
    assert [job.poll() for _ in range(3)] == [None] * 3
    assert capsys.readouterr().out.count("Slurm does not say how its jobs are") == 1


def test_job_that_was_handed_over_after_the_last_answer_is_held(queue, tmp_path, monkeypatch):
    (tmp_path / "squeue.txt").write_text("")
    queue.ask()
    monkeypatch.setattr(launcher, "ASK_SECONDS", 60.0)
    assert queue.job(Handed(tmp_path, "7")).poll() is None
