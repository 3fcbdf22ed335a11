"""Trackers: none by default, one by choice, whose faults never end a run."""
from __future__ import annotations

import json
import socket
import sys
from importlib.util import find_spec

import pytest

from tests.bad_input.table import SHORT, SIZE


@pytest.fixture
def words(place, monkeypatch):
    """A short training, during which nothing can reach a network beyond this machine."""
    place.write("rows.jsonl", "".join(json.dumps({"text": f"{n} and {n} make {n + n}."}) + "\n" for n in range(40)))

    connect = socket.socket.connect

    def only_here(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "0.0.0.0", "localhost"):
            raise AssertionError(f"a connection to {address} was opened")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    return ("train", *SIZE, *SHORT, "data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3",
            "pipeline.stages=[acquire,tokenize,train]", "run.dir=run")


def test_nothing_is_told_to_anybody_unless_asked(place, monkeypatch):
    modules = [f"pipelines.tracking.{name}" for name in ("tensorboard", "mlflow", "trackio")]
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)         # where another test has asked
    assert place.call("fake", "run.dir=run").status == 0
    assert not set(modules) & set(sys.modules)
    assert not (place.path / "outputs/tracker").exists()


@pytest.mark.parametrize("name, message", [
    ("tensorboard", "tracker=tensorboard needs tensorboard, which is not installed\n  tracker.name\n"
                    "  try  pip install tensorboard             nothing was started\n"),
    ("mlflow", "tracker=mlflow needs mlflow, sqlalchemy, alembic, which are not installed\n  tracker.name\n"
               "  try  pip install mlflow-skinny sqlalchemy alembic\n  nothing was started\n"),
    ("trackio", "tracker=trackio needs trackio, which is not installed\n  tracker.name\n"
                "  try  pip install trackio                 nothing was started\n"),
])
def test_missing_package_says_what_to_install_before_anything_starts(place, monkeypatch, name, message):
    monkeypatch.setattr("pipelines.tracking.tracker.find_spec", lambda package: None)
    before = place.files()
    ended = place.call("fake", f"tracker={name}")
    assert (ended.status, ended.err) == (2, message) and place.files() == before


def test_unknown_tracker_names_those_that_there_are(place):
    ended = place.call("fake", "tracker=tensorbord")
    assert ended.status == 2 and ended.err.startswith("tracker=tensorbord is not there")
    assert "did you mean  tracker=tensorboard ?" in ended.err
    ended = place.call("fake", "tracker.name=wandb")
    assert ended.status == 2 and "wandb" in ended.err


def test_fault_of_a_tracker_is_told_once_and_the_run_goes_on(place, words, monkeypatch):
    module = pytest.importorskip("pipelines.tracking.tensorboard")

    class Broken:
        def log(self, step, figures):
            raise OSError("the disk of the tracker is full")

    monkeypatch.setattr(module, "start", lambda *_: Broken())
    monkeypatch.setattr("pipelines.tracking.tracker.find_spec", lambda package: True)
    ended = place.call(*words, "tracker=tensorboard")
    assert ended.status == 0
    assert ended.out.count("tracker: tensorboard failed, the run goes on without it: OSError: the disk of the tracker is full") == 1


def test_tracker_changes_no_job(place):
    assert place.call("fake", "run.dir=one").status == 0
    pytest.importorskip("tensorboard")
    assert place.call("fake", "run.dir=two", "tracker=tensorboard").status == 0
    one, two = (json.loads((place.path / name / "run.json").read_text())["job"] for name in ("one", "two"))
    assert one == two


def test_tensorboard_has_every_step_the_settings_and_the_results(place, words):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    assert place.call(*words, "tracker=tensorboard").status == 0
    [file] = (place.path / "outputs/tracker/tensorboard/train/run").glob("events.out.tfevents.*")
    events = [(event.step, value) for event in EventFileLoader(str(file)).Load() for value in event.summary.value]
    assert [step for step, value in events if value.tag == "train/loss" and step] == [1, 2, 3, 4, 4]          # and the result at the end
    assert [step for step, value in events if value.tag == "validation/loss"] == [2, 4]
    settings = next(value for _, value in events if value.tag == "settings")
    assert b"learning_rate" in settings.tensor.string_val[0]


def test_mlflow_store_has_settings_curves_and_results(place, words):
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    assert place.call(*words, "tracker=mlflow").status == 0
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{place.path / 'outputs/tracker/mlflow/mlflow.db'}")
    experiment = client.get_experiment_by_name("hierarchos")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED" and run.data.params["train.steps"] == "4" and run.info.run_name == "run"
    losses = client.get_metric_history(run.info.run_id, "train/gradient_norm")
    assert [one.step for one in losses] == [1, 2, 3, 4] and "train/best_loss" not in run.data.metrics
    assert run.data.metrics["validation/loss"] > 0


def test_trackio_keeps_its_files_in_the_folder(place, words):
    if find_spec("trackio") is None:                    # not imported here: it reads its folder when it is imported
        pytest.skip("trackio is not installed")
    assert place.call(*words, "tracker=trackio").status == 0
    assert list((place.path / "outputs/tracker/trackio").rglob("*.db"))
