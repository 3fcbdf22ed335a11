"""Which setting was probably meant."""
from __future__ import annotations

from hierarchos.errors import UserError, nearest
from pipelines.settings.schema import groups, settings

FOREIGN = {                                             # what other trainers call it
    "lr": "train.learning_rate", "max_steps": "train.steps", "num_steps": "train.steps", "num_train_epochs": "train.epochs",
    "per_device_train_batch_size": "train.batch_size", "micro_batch_size": "train.batch_size", "block_size": "train.sequence_length",
    "gradient_accumulation_steps": "train.accumulation", "grad_accum": "train.accumulation", "max_length": "train.sequence_length",
    "max_seq_length": "train.sequence_length", "lr_scheduler": "train.schedule.name", "lr_scheduler_type": "train.schedule.name",
    "warmup_steps": "train.schedule.warmup", "warmup_ratio": "train.schedule.warmup", "gradient_checkpointing": "train.recompute",
    "gradient_checkpoint": "train.recompute", "grad_clip": "train.max_grad_norm", "wd": "train.optimizer.weight_decay",
    "save_steps": "train.checkpoint_every", "eval_steps": "train.eval_every", "dtype": "precision.compute",
    "torch_dtype": "precision.compute", "mixed_precision": "precision.compute", "amp": "precision.compute", "bf16": "precision.compute",
    "fp16": "precision.compute", "quantization": "precision.base", "load_in_8bit": "precision.base", "load_in_4bit": "precision.base",
    "lora_r": "peft.rank", "lora_rank": "peft.rank", "lora_alpha": "peft.alpha", "lora_dropout": "peft.dropout", "packing": "data.layout",
    "max_tokens": "generate.max_new_tokens", "output_dir": "run.dir", "resume_from_checkpoint": "run.resume", "dataset": "data.path",
}


def nearest_setting(key: str, extra: set[str] = frozenset()) -> str | None:
    """The valid key closest to `key`: among its neighbours first (as a whole, then by one of their
    words), then by its last word anywhere, then as a whole."""
    known = [*settings(), *groups(), *extra]
    parent, _, leaf = key.rpartition(".")
    neighbours = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == parent}
    leaves = {name.rpartition(".")[2]: name for name in reversed(known)}
    if found := nearest(leaf, neighbours, 0.7 if parent else 0.8):
        return neighbours[found]
    words = {word: name for leaf, name in neighbours.items() for word in leaf.split("_")} if parent else {}
    if found := nearest(leaf, words, 0.8):
        return words[found]
    if found := nearest(leaf, FOREIGN, 0.85):
        return FOREIGN[found]
    if found := nearest(leaf, leaves, 0.76):
        return leaves[found]
    return nearest(key, known, 0.75)


def unknown_setting(key: str, where: str, extra: set[str] = frozenset()) -> UserError:
    """The message for a key that nothing reads."""
    near = nearest_setting(key, extra)
    parent = next((part for part in _parents(key) if part in groups()), None)
    hint = () if near else f"{parent} has: {', '.join(_below(parent))}" if parent else "hierarchos train --help lists all settings"
    return UserError(f"{key} is not a setting", where=where, nearest=near, hint=hint)


def _parents(key: str) -> list[str]:
    parts = key.split(".")
    return [".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1)]


def _below(group: str) -> list[str]:
    return [name.rpartition(".")[2] for name in [*settings(), *groups()] if name.rpartition(".")[0] == group]
