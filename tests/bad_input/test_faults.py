"""Things that break while a run goes on: a full disk, a kill, a lost device, no memory. The last good state stays whole, and a run that
is continued ends with the same bits as one that was never broken."""
# ruff: noqa: E501 (messages as they are)
from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from unittest import mock

import pytest

from hierarchos.training.checkpoint import checkpoints
from hierarchos.vulkan import FailAllocation, FailSubmit
from tests.bad_input.table import FAILED_RUN, TINY, Wrong, by_name
from tests.pipelines.conftest import ROOT

ROWS_FILE = {"rows.jsonl": "".join(json.dumps({"prompt": f"{n} and {n} make", "completion": f" {n + n}."}) + "\n" for n in range(40))}
WORDS = (*TINY, "data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3", "pipeline.stages=[acquire,tokenize,train,export]")


def broken(what: str, message: str, status: int = 4) -> Wrong:
    return Wrong(what, (*WORDS, "run.dir=run"), message, ROWS_FILE, status=status, left=FAILED_RUN)


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def planted(*faults: object) -> Iterator[None]:
    """Every device that is opened has these faults."""
    from pipelines import devices

    opened = devices.open_selected

    def with_faults(config: object) -> object:
        device = opened(config)
        device.inject(*faults)
        return device

    with mock.patch.object(devices, "open_selected", with_faults):
        yield


def full_at(target: str, number: int, when: Callable[..., bool] = lambda *a, **k: True) -> mock._patch:
    """The disk is full at the n-th call of a function."""
    original, calls = resolve_name(target), iter(range(10_000))

    def call(*arguments: object, **options: object) -> object:
        if when(*arguments, **options) and next(calls) >= number - 1:
            full()
        return original(*arguments, **options)

    return mock.patch(target, call)


FAULTS: dict[str, Callable[[], object]] = {
    "disk full while a checkpoint is saved": lambda: full_at("hierarchos.training.checkpoint.sync", 9),
    "disk full at the first checkpoint": lambda: full_at("hierarchos.training.checkpoint.sync", 1),
    "disk full while a metric is written": lambda: full_at("json.dumps", 3, lambda value, **_: isinstance(value, dict) and "learning_rate" in value),
    "disk full while the package is exported": lambda: full_at("os.fsync", 1, in_export),
    "disk full while tokens are written": lambda: full_at("hierarchos.data.token_file.TokenFile.save", 1),
    "device lost at the first submission": lambda: planted(FailSubmit(1)),
    "device lost in a step": lambda: planted(FailSubmit(2)),
    "device lost in a validation": lambda: planted(FailSubmit(3)),
    "no memory for the weights": lambda: planted(FailAllocation(1)),
    "no memory for a later program": lambda: planted(FailAllocation(11)),
}


def in_export(*_: object) -> bool:
    """Whether the package is being written, not a checkpoint."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "write_package":
            return True
        frame = frame.f_back
    return False


ROWS = [
    broken("disk full while a checkpoint is saved", """\
the disk is full: checkpoint step-3 could not be written
  run/checkpoints
  free some space, then resume from step 2; nothing that was saved is lost
  stopped in train; log: run/stages/train/log""", 2),
    broken("disk full at the first checkpoint", """\
the disk is full: checkpoint step-1 could not be written
  run/checkpoints
  free some space and start again; no checkpoint had been written yet
  stopped in train; log: run/stages/train/log""", 2),
    broken("disk full while a metric is written", """\
the disk is full
  free some space, then run.resume=latest goes on
  nothing that was saved is lost
  stopped in train; log: run/stages/train/log""", 2),
    broken("disk full while the package is exported", """\
the disk is full: the package could not be written (80,379,592,704 bytes are free)
  run/model
  free some space and export again         nothing was left behind
  stopped in export; log: run/stages/export/log""", 2),
    broken("disk full while tokens are written", """\
the disk is full
  free some space, then run.resume=latest goes on
  nothing that was saved is lost
  stopped in tokenize; log: run/stages/tokenize/log""", 2),
    broken("device lost at the first submission", """\
the device was lost while running 'step of 2 x 16 tokens'; its largest kernels by estimate:
  adamw  groups 65x1x1  2.3e+05 operations  453.2 KiB
  gemm NT 32x289x16  groups 5x1x1  3e+05 operations  56.2 KiB
  gemm NN 32x16x289  groups 1x2x1  3e+05 operations  56.2 KiB
  gemm TN 289x16x32  groups 1x19x1  3e+05 operations  56.2 KiB
  cross-entropy  groups 32x1x1  2.8e+05 operations  108.4 KiB
  the usual causes are a kernel that ran longer than the driver's watchdog allows, or a driver fault
  lower the batch size or sequence length, or shorten submissions; files on disk are untouched
  0 of 4 steps were done; no checkpoint was written yet
  settings that help: train.batch_size, train.sequence_length, train.recompute, device.max_submit_ms, device.select
  stopped in train; log: run/stages/train/log"""),
    broken("device lost in a step", """\
the device was lost while running 'step of 2 x 16 tokens'; its largest kernels by estimate:
  adamw  groups 65x1x1  2.3e+05 operations  453.2 KiB
  gemm NT 32x289x16  groups 5x1x1  3e+05 operations  56.2 KiB
  gemm NN 32x16x289  groups 1x2x1  3e+05 operations  56.2 KiB
  gemm TN 289x16x32  groups 1x19x1  3e+05 operations  56.2 KiB
  cross-entropy  groups 32x1x1  2.8e+05 operations  108.4 KiB
  the usual causes are a kernel that ran longer than the driver's watchdog allows, or a driver fault
  lower the batch size or sequence length, or shorten submissions; files on disk are untouched
  1 of 4 steps were done; checkpoint step-1 is whole, run.resume=latest goes on from it
  settings that help: train.batch_size, train.sequence_length, train.recompute, device.max_submit_ms, device.select
  stopped in train; log: run/stages/train/log"""),
    broken("device lost in a validation", """\
the device was lost while running 'validation of 2 x 16 tokens'; its largest kernels by estimate:
  gemm NT 32x289x16  groups 5x1x1  3e+05 operations  56.2 KiB
  cross-entropy  groups 32x1x1  2.8e+05 operations  36.1 KiB
  gemm NN 32x64x16  groups 2x2x1  6.6e+04 operations  14.0 KiB
  gemm NN 32x16x64  groups 1x2x1  6.6e+04 operations  14.0 KiB
  gemm NN 32x48x16  groups 2x2x1  4.9e+04 operations  11.0 KiB
  the usual causes are a kernel that ran longer than the driver's watchdog allows, or a driver fault
  lower the batch size or sequence length, or shorten submissions; files on disk are untouched
  2 of 4 steps were done; checkpoint step-1 is whole, run.resume=latest goes on from it
  settings that help: train.batch_size, train.sequence_length, train.recompute, device.max_submit_ms, device.select
  stopped in train; log: run/stages/train/log"""),
    broken("no memory for the weights", """\
out of device memory: parameters needs 64.8 KiB
  in use 0 bytes of a 2.00 GiB heap (nothing); one allocation may have at most 2.00 GiB
  lower the batch size or the sequence length, recompute activations, or choose a device with more memory
  stopped in train; log: run/stages/train/log"""),
    broken("no memory for a later program", """\
out of device memory: validation of 2 x 16 tokens outputs needs 256 bytes
  in use 340.2 KiB of a 2.00 GiB heap (step of 2 x 16 tokens activations 76.8 KiB, first_moment 64.8 KiB, gradients 64.8 KiB, parameters 64.8 KiB); one allocation may have at most 2.00 GiB
  lower the batch size or the sequence length, recompute activations, or choose a device with more memory
  2 of 4 steps were done; checkpoint step-1 is whole, run.resume=latest goes on from it
  settings that help: train.batch_size, train.sequence_length, train.recompute, device.max_submit_ms, device.select
  stopped in train; log: run/stages/train/log"""),
]


@contextmanager
def prepare_process(row: Wrong) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(FAULTS[row.what]())
        yield


def general(text: str) -> str:
    """Sizes that depend on the kind of device are not part of the promise."""
    text = re.sub(r"  groups [0-9x]+  [0-9.e+]+ operations  .*", "  groups N  N operations", text)
    return re.sub(r"[0-9.,]+ (bytes|KiB|MiB|GiB)", r"N \1", text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> bytes:
    """The package that an unbroken run exports."""
    folder = tmp_path_factory.mktemp("whole")
    for name, content in ROWS_FILE.items():
        (folder / name).write_text(content)
    started(folder, *WORDS, "run.dir=run").wait()
    return (folder / "run/model/model.safetensors").read_bytes()


def started(folder: Path, *words: str, code: str = "") -> subprocess.Popen:
    """`hierarchos` in a process of its own, after `code`."""
    program = f"import sys; {code or 'pass'}\nfrom pipelines.main import main; sys.exit(main({list(words)!r}))"
    return subprocess.Popen([sys.executable, "-c", program], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(**by_name(ROWS))
def test_run_that_broke_says_so_keeps_its_checkpoints_and_continues_to_the_same_bits(answer, place, row, whole):
    with prepare_process(row):
        ended = answer(row)
    assert general(ended.err.rstrip("\n")) == general(row.message)
    assert ended.status == row.status
    run = place.path / "run"
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    assert not list(run.rglob("*.partial"))
    assert all(checkpoint.state_file.stat().st_size == checkpoint.manifest["state_bytes"] for checkpoint in checkpoints(run / "checkpoints"))
    resumed = place.call("train", "run.resume=run")
    assert resumed.status == 0, resumed.err
    assert (run / "model/model.safetensors").read_bytes() == whole


KILL_IN_CHECKPOINT = """
import os, signal
from hierarchos.training import state
def half(self, path):
    written(self, path)
    if path.parent.name == ".step-3.partial":
        os.truncate(path, path.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)
written, state.TrainingState.save = state.TrainingState.save, half
"""


def test_kill_after_half_of_a_checkpoint_loses_only_that_one(place, whole):
    place.write("rows.jsonl", ROWS_FILE["rows.jsonl"])
    killed = started(place.path, *WORDS, "run.dir=run", code=KILL_IN_CHECKPOINT)
    assert killed.wait() == -signal.SIGKILL
    assert [checkpoint.step for checkpoint in checkpoints(place.path / "run/checkpoints")] == [1, 2]
    ended = place.call("train", "run.resume=run")
    assert ended.status == 0, ended.err
    assert "train: checkpoints/.step-3.partial is not whole and is left out" in ended.out and "continued after step 2" in ended.out
    assert (place.path / "run/model/model.safetensors").read_bytes() == whole


def test_damaged_checkpoint_is_left_out_and_told(place, whole):
    place.write("rows.jsonl", ROWS_FILE["rows.jsonl"])
    with planted(FailSubmit(6)):
        assert place.call(*WORDS, "run.dir=run").status == 4
    newest = checkpoints(place.path / "run/checkpoints")[-1]
    os.truncate(newest.state_file, 100)
    ended = place.call("train", "run.resume=run")
    assert ended.status == 0 and f"train: checkpoints/{newest.path.name} is not whole and is left out" in ended.out
    assert (place.path / "run/model/model.safetensors").read_bytes() == whole


def test_damaged_tokens_are_told_and_made_again(place, whole):
    place.write("rows.jsonl", ROWS_FILE["rows.jsonl"])
    with planted(FailSubmit(2)):
        assert place.call(*WORDS, "run.dir=run").status == 4
    [tokens] = place.path.glob("outputs/cache/tokenize/*/files/train.safetensors")
    tokens.write_bytes(b"abc")
    ended = place.call("train", "run.resume=run")
    assert ended.status == 2 and "not a token file, or damaged" in ended.err and "try  run.force=tokenize  to make it again" in ended.err
    assert place.call("train", "run.resume=run", "run.force=tokenize").status == 0
    assert (place.path / "run/model/model.safetensors").read_bytes() == whole
