"""What training coherent-v9 needs on a device: asked before it starts, and told by `hierarchos plan`."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.stages.coherent_package import start, stream
from pipelines.stages.tokenize import TRAIN

if TYPE_CHECKING:
    from hierarchos.data.batches import BatchStream
    from hierarchos.models.coherent_v9.chunk import Chunk
    from hierarchos.models.coherent_v9.config import Config as ModelConfig
    from pipelines.config import Config
    from pipelines.stage import Context


def planned(context: Context, cfg: ModelConfig, batches: BatchStream) -> Chunk:
    """The programs of a chunk, once what training needs is known to fit; raises DoesNotFit otherwise."""
    from hierarchos.vulkan import DoesNotFit, budget_of

    chunk, items = memory_items(context.config, cfg, batches)
    budget = budget_of(context.device)
    if sum(items.values()) > budget.free and not context.config.device.ignore_heap:
        advice = ["a smaller train.batch_size (with train.accumulation) or train.sequence_length needs less tape, so does a smaller",
                  "model.config.training_chunk_size" + (" with train.recompute=true" if cfg.full_sample_bptt else "")]
        raise DoesNotFit("training", items, context.device.info.name, budget, advice)
    return chunk


def memory_items(config: Config, cfg: ModelConfig, batches: BatchStream) -> tuple[Chunk, dict[str, int]]:
    """The programs of a chunk and bytes by kind."""
    from hierarchos.coherent.need import training_bytes
    from hierarchos.models.coherent_v9.chunk import Chunk, Kind
    from hierarchos.training.coherent.step import chunk_length

    longest = max(length for _, length in batches.shapes())
    inner = cfg.ltm_training_mode == "inner-update"
    chunk = Chunk(cfg, Kind(config.train.batch_size, padded=True, own_memory=inner and cfg.isolate_batch_ltm))
    return chunk, training_bytes(chunk, chunk_length(cfg, longest, config.train.recompute))


def forecast_lines(context: Context) -> tuple[dict[str, list[str]], bool]:
    """What `hierarchos plan` says of rows, steps and memory, and whether it fits."""
    from hierarchos.training.settings import total_steps
    from hierarchos.vulkan import budget_of

    config = context.config
    batches = stream(context, TRAIN, config.train.batch_size, config.train.shuffle)
    _, items = memory_items(config, start(context)[0], batches)
    budget, total = budget_of(context.device), sum(items.values())
    fits = total <= budget.free or config.device.ignore_heap
    told = [f"{total / 2**20:,.0f} MiB: " + ", ".join(f"{name} {count / 2**20:,.1f}" for name, count in items.items()),
            f"{context.device.info.name} has {budget.text()}: {'it fits' if total <= budget.free else 'it does NOT fit'}"]
    steps = total_steps(config.train, len(batches))
    return {"steps": [f"{steps:,} steps of {config.train.batch_size} x {config.train.sequence_length} tokens"], "memory": told}, fits
