"""A trainer of the small model: two rows of thirteen tokens, chunks of eight."""

from __future__ import annotations

from dataclasses import replace

from hierarchos.models.coherent_v9.config import resolve
from hierarchos.training.coherent.trainer import CoherentTrainer
from tests.coherent_v9.small import small
from tests.tiny import RandomBatches, Settings

SMALL = small(training_chunk_size=8, memory_gate_warmup_steps=10, memory_gate_warmup_floor=0.3, ltm_value_alignment_min_updates=2,
              ltm_value_alignment_ready_threshold=50.0)
INNER = resolve({**SMALL.values, "ltm_training_mode": "inner-update", "ltm_lr": 0.1})


def trainer(device, folder, steps=4, trained=None, cfg=SMALL, persist=False, **changes):
    settings = replace(Settings(), steps=steps, eval_every=0, checkpoint_every=1, keep_best=False, **changes)
    batches = RandomBatches(2, 13)
    return CoherentTrainer(cfg, settings, batches, [batches.batch(99)], device, folder, shape=(2, 13), padded=True, trained=trained,
                           persist=persist)
