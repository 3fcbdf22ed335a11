"""Checkpoints: exact resume, what their files hold, and everything that is refused."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.hub.safetensors_file import TensorFile
from hierarchos.kernels.optimizer import BLOCK
from hierarchos.models.coherent_v9.config import resolve
from hierarchos.models.coherent_v9.contract import contract_of, digest_of
from hierarchos.models.coherent_v9.package import load
from hierarchos.models.coherent_v9.parameters import initial_values
from hierarchos.training.checkpoint import file_hash
from hierarchos.training.coherent.sidecar import write_optimizer
from hierarchos.training.graphs import DECAY_GROUPS
from tests.coherent_v9.training import INNER, SMALL, trainer


def test_stop_and_resume_repeat_the_unbroken_run(device, tmp_path):
    whole = trainer(device, tmp_path / "whole")
    whole.start(initial_values(SMALL, 3))
    whole.run()
    first = trainer(device, tmp_path / "halves", keep_last=9)
    first.start(initial_values(SMALL, 3))
    for report in first.remaining_steps():
        if report.step == 2:
            first.save()
            break
    second = trainer(device, tmp_path / "halves")
    assert second.resume().step == 2
    second.run()
    assert second.state.store.digest("parameters", "first_moment", "second_moment") == whole.state.store.digest(
        "parameters", "first_moment", "second_moment"
    )
    assert vars(second.state.writer) == vars(whole.state.writer) and second.state.warmup_step == whole.state.warmup_step == 3.0
    assert second.state.writer.val_proj_trained and second.state.writer.val_proj_alignment_updates == 4


def test_a_checkpoint_of_another_model_is_refused(device, tmp_path):
    made = trainer(device, tmp_path, steps=1)
    made.start(initial_values(SMALL, 3))
    made.run()
    other = trainer(device, tmp_path, cfg=resolve({**SMALL.values, "h_stride": 4}))
    with pytest.raises(UserError, match="another model: h_stride is 2 there and 4 here"):
        other.resume()


def test_a_checkpoint_is_a_package_with_the_optimizer_beside_it(device, tmp_path):
    made = trainer(device, tmp_path, steps=2, trained=frozenset({"ltm.vals", "out_norm.bias", "val_proj.weight"}))
    made.start(initial_values(SMALL, 3))
    made.run()
    folder = made.chosen().path
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors", "hierarchos_config.json", "hierarchos_rust_config.json", "optimizer.safetensors", "training_state.json",
        "checkpoint.json"}
    package, state = load(folder), json.loads((folder / "training_state.json").read_text())
    assert np.array_equal(package.values["ltm.vals"], made.state.store.read("ltm.vals"))
    assert package.config.status["val_proj_alignment_updates"] == 2 and package.buffers["memory_gate_warmup_step"] == 1.0
    optimizer = TensorFile(folder / "optimizer.safetensors")
    names, told = json.loads(optimizer.metadata["slot_names"]), optimizer.metadata
    assert (told["format"], told["step"], told["layout"]) == ("hierarchos-vulkan-adamw-v3", "2", "pytorch-row-major")
    assert optimizer.read("optimizer.ltm.vals.exp_avg").shape == (32,) and len(optimizer.entries) == 2 * len(names)
    steps = dict(zip(names, json.loads(told["slot_steps"]), strict=True))
    classes = dict(zip(names, json.loads(told["slot_decay_classes"]), strict=True))
    assert steps["ltm.vals"] == steps["val_proj.weight"] == 2 and steps["h_rnn.w1"] == 0
    assert (classes["ltm.vals"], classes["out_norm.bias"], classes["val_proj.weight"]) == ("decay", "no-decay", "no-decay")
    session = state["training_session"]
    assert (state["format"], state["optimizer_step"], state["gradient_file"]) == ("hierarchos-vulkan-training-state-v6", 2, None)
    assert session["data_stream_cursor"] == {"seed": 0, "epoch": 0, "batch": 2} and session["main_lr_scheduler"]["step"] == 2
    assert session["main_lr_scheduler"]["last_lrs"] == [made.rate(1)] * 2


def damaged(folder, name: str, what) -> None:
    """Changes one file of a checkpoint; its own digest stays as it was."""
    content = json.loads((folder / name).read_text())
    what(content)
    (folder / name).write_text(json.dumps(content))


BROKEN = {
    "no training state": (lambda f: (f / "training_state.json").unlink(), "the checkpoint has no readable training_state.json"),
    "another format": (
        lambda f: damaged(f, "training_state.json", lambda c: c.update(format="v5")),
        "the training state has the format 'v5', not 'hierarchos-vulkan-training-state-v6'",
    ),
    "a changed optimizer": (
        lambda f: (f / "optimizer.safetensors").write_bytes(b"nothing"),
        "optimizer.safetensors is damaged: its content is not what was written",
    ),
    "another contract": (
        lambda f: damaged(f, "hierarchos_rust_config.json", lambda c: c.update(architecture_contract_sha256="0" * 64)),
        "architecture_contract_sha256 is 000000000000..., but its contract gives {digest}...",
    ),
}


@pytest.fixture(scope="module")
def stopped(device, tmp_path_factory):
    """A trainer that has written the checkpoint of one step."""
    made = trainer(device, tmp_path_factory.mktemp("stopped"), steps=1)
    made.start(initial_values(SMALL, 3))
    made.run()
    return made


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_checkpoint_is_refused(what, stopped, tmp_path):
    breaks, message = BROKEN[what]
    folder = tmp_path / "step-1"
    shutil.copytree(stopped.chosen().path, folder)
    breaks(folder)
    before = stopped.state.store.digest("parameters")
    with pytest.raises(UserError) as told:
        stopped.state.restore(folder / "model.safetensors")
    assert told.value.what == message.format(digest=digest_of(contract_of(SMALL))[:12])
    assert stopped.state.store.digest("parameters") == before


def test_decay_classes_are_those_of_the_checkpoint(stopped, tmp_path):
    folder = tmp_path / "step-1"
    shutil.copytree(stopped.chosen().path, folder)
    classes = dict(stopped.state.classes, **{"h_deepembed_adapter.up.weight": "no-decay"})
    names = list(classes)
    write_optimizer(folder / "optimizer.safetensors", names, stopped.state._flat, 1, dict.fromkeys(names, 1), classes)
    digest = file_hash(folder / "optimizer.safetensors")
    damaged(folder, "training_state.json", lambda c: c["sha256"].update({"optimizer.safetensors": digest}))
    before = stopped.state.store.read(DECAY_GROUPS)
    stopped.state.restore(folder / "model.safetensors")
    changed = np.nonzero(stopped.state.store.read(DECAY_GROUPS) != before)[0] * 4 * BLOCK
    place = stopped.state.store.layout.find("h_deepembed_adapter.up.weight")
    assert len(changed) and all(place.offset <= at < place.offset + place.spec.nbytes for at in changed)
    stopped.state.restore(stopped.chosen().state_file)


@pytest.mark.parametrize("cfg", [SMALL, INNER], ids=["read-only", "inner-update"])
def test_a_state_that_goes_on_is_resumed_bit_for_bit(cfg, device, tmp_path):
    """Validation between the steps leaves it alone."""
    whole = trainer(device, tmp_path / "whole", cfg=cfg, persist=True)
    whole.start(initial_values(cfg, 3))
    whole.run()
    first = trainer(device, tmp_path / "halves", cfg=cfg, persist=True, keep_last=9)
    first.start(initial_values(cfg, 3))
    for report in first.remaining_steps():
        first.step.evaluate(first.validation)
        if report.step == 2:
            first.save()
            break
    second = trainer(device, tmp_path / "halves", cfg=cfg, persist=True)
    assert second.resume().step == 2
    second.run()
    arenas = ("parameters", "first_moment", "second_moment")
    assert second.state.store.digest(*arenas) == whole.state.store.digest(*arenas)
    ends, wanted = second.step.running(), whole.step.running()
    assert all(np.array_equal(ends.parts[name], value) for name, value in wanted.parts.items())
    assert [a.to_json() for a in ends.rosa] == [a.to_json() for a in wanted.rosa] and len(ends.rosa[0].tokens) == 4 * 13
    assert cfg is SMALL or (np.array_equal(ends.fast.values, wanted.fast.values) and wanted.fast.values.any())
    apart = trainer(device, tmp_path / "apart", cfg=cfg)
    apart.start(initial_values(cfg, 3))
    apart.run()
    assert apart.state.store.digest("parameters") != whole.state.store.digest("parameters")


def test_a_state_that_goes_on_needs_one_to_start_from(stopped, device, tmp_path):
    shutil.copytree(stopped.chosen().path, tmp_path / "step-1")
    made = trainer(device, tmp_path / "other", persist=True)
    with pytest.raises(UserError) as told:
        made.state.restore(tmp_path / "step-1/model.safetensors")
    assert told.value.what == "the checkpoint has no readable training_replay.json: its run did not carry the state from batch to batch"
