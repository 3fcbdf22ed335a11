"""Keys that others keep beside a model's configuration: how it was trained. Packages may hold them; here they are settings of a run."""
from __future__ import annotations

from hierarchos.errors import UserError

SETTINGS = {
    "starting_lr": "train.learning_rate",
    "min_lr": "train.schedule.floor (a share of train.learning_rate)",
    "warmup_steps": "train.schedule.warmup",
    "warmup_ratio": "train.schedule.warmup (below 1)",
    "rwkv_weight_decay": "train.optimizer.weight_decay",
    "grad_clip": "train.max_grad_norm",
    "accumulation_steps": "train.accumulation",
    "accumulation_normalization": "coherent.normalization",
    "batch_size": "train.batch_size",
    "max_length": "train.sequence_length",
    "max_ce_loss_for_backward": "coherent.max_ce_for_backward",
    "persist_state": "coherent.persist_state",
    "gradient_checkpointing": "train.recompute (of full_sample_bptt; chunks decide what they keep)",
}
ABSENT = {
    "cpu_loss_chunk_rows": "logits are cut into blocks of 64 MiB always",
    "cuda_loss_chunk_rows": "logits are cut into blocks of 64 MiB always",
    "compile": "every step is compiled",
}
COMPILE = "compile"


def is_runtime(name: str) -> bool:
    """Whether a key says how a model was trained, or how its programs were made."""
    return name in SETTINGS or name in ABSENT or name.startswith(f"{COMPILE}_")


def refuse(name: str, where: str, outcome: str | None) -> None:
    """Raises UserError: the key is not read here; what is, is named."""
    if name in SETTINGS:
        raise UserError(f"{name} is not a key of the model but a setting of the run", where=where, outcome=outcome,
                        hint=f"here it is {SETTINGS[name]}")
    raise UserError(f"{name} is not there", where=where, outcome=outcome, hint=ABSENT.get(name, ABSENT[COMPILE]))
