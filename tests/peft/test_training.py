"""What training an adapter promises: the base stays bit-identical and costs no gradient; resume is exact."""
from __future__ import annotations

import numpy as np
import pytest

from hierarchos.peft.adapted import adapted
from hierarchos.peft.adapter import EVEN, Rates
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.start import Start
from hierarchos.training.graphs import FROZEN, GRADIENTS, PARAMETERS
from hierarchos.training.metrics import read_metrics, without_timing

KINDS = {"lora": {}, "dora": {"use_dora": True}, "dropout": {"lora_dropout": 0.3}, "pissa": {"init_lora_weights": "pissa"},
         "saved": {"modules_to_save": ("lm_head", "norm")}, "tokens": {"trainable_token_indices": {"embed_tokens": (3, 9)}}}


def made(base, rates=EVEN, **settings):
    model = adapted(base.model, LoraConfig(**{"r": 3, "lora_alpha": 6, **settings}), rates=rates)
    return model, Start(model, dict(base.values()), 5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_base_is_bit_identical_after_training_and_has_no_gradient(tiny_trainer, base, kind):
    model, values = made(base, **KINDS[kind])
    trainer = tiny_trainer("run", model=model, dropout=True)
    trainer.start(values)
    before = trainer.state.store.read(FROZEN)
    trainer.run()
    layout = trainer.state.store.layout
    assert np.array_equal(trainer.state.store.read(FROZEN), before)
    assert {name for name in layout.members(PARAMETERS)} == {spec.name for spec in model.trained}
    assert layout.arenas[GRADIENTS] == layout.arenas[PARAMETERS] < layout.arenas[FROZEN] * (4 if kind == "saved" else 1)
    assert not any(name.partition("/")[2] in layout.members(FROZEN) for name in layout.members(GRADIENTS))


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls(tiny_trainer, base, kind):
    model, values = made(base, **KINDS[kind])
    trainer = tiny_trainer("run", model=model, learning_rate=2e-2, steps=12, eval_every=0, keep_best=False, batches=Same())
    trainer.start(values)
    trainer.run()
    losses = [row["loss"] for row in read_metrics(trainer.folder / "metrics.jsonl") if "loss" in row]
    assert losses[-1] < losses[0] - 0.1


class Same:
    """The same batch each time."""

    def __len__(self):
        return 4

    def batch(self, number):
        from tests.tiny import RandomBatches

        return RandomBatches(2, 11).batch(0)


@pytest.mark.parametrize("kind", ["lora", "dropout", "pissa"])
def test_resume_equals_uninterrupted(tiny_trainer, base, kind):
    model, values = made(base, **KINDS[kind])
    whole = tiny_trainer("whole", model=model, dropout=True)
    whole.start(values)
    whole.run()
    first = tiny_trainer("halves", model=model, dropout=True)
    first.start(values)
    reports = first.remaining_steps()
    for _ in range(4):
        next(reports)
    first.save()
    second = tiny_trainer("halves", model=model, dropout=True)
    assert second.resume().step == 4
    second.state.load_frozen(values)
    second.run()
    assert second.state.store.digest() == whole.state.store.digest()
    rest = [row for row in without_timing(read_metrics(whole.folder / "metrics.jsonl")) if row["step"] > 4]
    assert without_timing(read_metrics(second.folder / "metrics.jsonl")) == rest


def test_a_checkpoint_holds_the_adapter_alone(tiny_trainer, base):
    model, values = made(base)
    trainer = tiny_trainer("run", model=model)
    trainer.start(values)
    trainer.run()
    entries = [name for name, _ in trainer.state.entries()]
    assert len(entries) == 3 * len(model.trained) and all("default:" in name for name in entries)


def test_lora_plus_moves_b_faster(tiny_trainer, base):
    """AdamW's first step is as long as its learning rate: of B sixteen times that of A."""
    model, values = made(base, Rates(16.0))
    trainer = tiny_trainer("run", model=model, steps=2, learning_rate=1e-3, eval_every=0, keep_best=False)
    trainer.settings.schedule.__dict__.update(warmup=0)
    trainer.start(values)
    next(trainer.remaining_steps())
    name = "default:model.layers.0.self_attn.q_proj.lora_B.weight"
    step = np.abs(trainer.state.store.read(name)).max()
    assert step == pytest.approx(16e-3, rel=1e-3)


def test_lora_plus_groups_parameters_as_peft_does(base):
    """Every kind of parameter that an adapter can have, by the learning rate that PEFT's optimizer gives it."""
    torch, transformers, peft = (pytest.importorskip(name) for name in ("torch", "transformers", "peft"))
    from peft.optimizers import create_loraplus_optimizer

    for asked in ({"target_modules": ("q_proj", "embed_tokens", "lm_head"), "modules_to_save": ("norm",)},
                  {"target_modules": ("q_proj",), "use_dora": True, "trainable_token_indices": {"embed_tokens": (3, 9)}}):
        model, _ = made(base, Rates(16.0, 1e-6 / 1e-3), **asked)
        lists = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}
        reference = transformers.AutoModelForCausalLM.from_pretrained(base.package.folder)
        reference = peft.get_peft_model(reference, peft.LoraConfig(r=3, **lists))
        optimizer = create_loraplus_optimizer(reference, torch.optim.AdamW, lr=1e-3, loraplus_lr_ratio=16.0)
        rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
        expected = {short(name): rates[id(p)] for name, p in reference.named_parameters() if p.requires_grad}
        assert {short(model.adapter.leaf(spec.name)): pytest.approx(spec.rate * 1e-3) for spec in model.trained} == expected


def short(name: str) -> str:
    """A parameter's name without what PEFT puts around it in memory."""
    name = name.removeprefix("base_model.model.").replace(".default", "").replace("modules_to_save.", "")
    return name.removesuffix(".weight")


def test_pissa_and_olora_leave_the_model_as_it_is(base):
    for init in ("pissa", "olora"):
        model, values = made(base, init_lora_weights=init)
        for lora in model.adapter.plan.loras.values():
            a, b = (values[f"default:{lora.site.name}.lora_{which}.weight"] for which in "AB")
            whole = values[f"{lora.site.name}.weight"] + np.float32(lora.scale) * b @ a
            assert np.abs(whole - base.value(f"{lora.site.name}.weight")).max() < 1e-6
