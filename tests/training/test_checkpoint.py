"""What a kill, a full disk and a damaged file do to checkpoints."""
import errno
import os

import pytest

from hierarchos.errors import UserError
from hierarchos.training import checkpoint as cp


def save(folder, step, content=b"state"):
    return cp.write_checkpoint(folder, step, lambda path: path.write_bytes(content), {"seed": 1})


def test_a_checkpoint_is_found_again_with_its_facts(tmp_path):
    save(tmp_path, 5)
    found = cp.latest_checkpoint(tmp_path)
    assert (found.step, found.manifest["seed"], found.state_file.read_bytes()) == (5, 1, b"state")


def test_a_kill_while_writing_leaves_the_previous_checkpoint(tmp_path):
    save(tmp_path, 5)

    def killed(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cp.write_checkpoint(tmp_path, 6, killed, {})
    assert cp.latest_checkpoint(tmp_path).step == 5
    assert [p.name for p in cp.sweep_partial(tmp_path)] == [".step-6.partial"]
    assert save(tmp_path, 6).step == 6


def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    save(tmp_path, 5)

    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UserError) as told:
        cp.write_checkpoint(tmp_path, 6, full, {})
    assert str(told.value) == (f"the disk is full: checkpoint step-6 could not be written\n  {tmp_path}\n"
                               "  free some space, then resume from step 5; nothing that was saved is lost")
    assert [c.step for c in cp.checkpoints(tmp_path)] == [5]


def test_a_checkpoint_cut_short_is_not_taken(tmp_path):
    save(tmp_path, 5)
    (save(tmp_path, 6, b"longer state").state_file).write_bytes(b"longer")
    assert cp.latest_checkpoint(tmp_path).step == 5


def test_changed_bytes_are_noticed(tmp_path):
    saved = save(tmp_path, 5)
    cp.verify(saved)
    saved.state_file.write_bytes(b"stale")
    with pytest.raises(UserError, match="step-5 is damaged"):
        cp.verify(saved)


def test_pruning_keeps_the_last_and_the_best(tmp_path):
    for step in range(1, 7):
        save(tmp_path, step)
    assert cp.prune(tmp_path, keep_last=2, best_step=3) == [1, 2, 4]
    assert [c.step for c in cp.checkpoints(tmp_path)] == [3, 5, 6]
