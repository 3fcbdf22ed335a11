"""Says what a stage needs of the device's memory, and refuses before anything is allocated where there is less."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.vulkan.errors import mebibytes

if TYPE_CHECKING:
    from hierarchos.graph.need import Need
    from hierarchos.training.advice import Alternative
    from hierarchos.vulkan import Device, DeviceInfo
    from pipelines.config import Config
    from pipelines.stage import Context

BASE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "int4": 0.5}        # of a weight, by precision.base
NOTHING_DONE = "device.ignore_heap=true tries all the same; nothing was allocated or trained"


def require_memory(context: Context, what: str, need: Need, advice: Callable[[int], list[str]] = lambda limit: []) -> None:
    """Shows the plan; raises DoesNotFit where the device has less, unless device.ignore_heap says to try.

    what: "training". advice: from the bytes that there are to lines that help, asked for only when it does not fit."""
    require_fit(context.device, context.config, context.progress.line, what, need, advice)


def require_fit(device: Device, config: Config, say: Callable[[str], None], what: str, need: Need,
                advice: Callable[[int], list[str]] = lambda limit: []) -> None:
    """The same outside of a run. say: shows a line."""
    from hierarchos.vulkan import DoesNotFit, budget_of

    budget = budget_of(device)
    say(memory_line(need))
    if need.total <= budget.free:
        return
    if not config.device.ignore_heap:
        raise DoesNotFit(what, dict(need.items), device.info.name, budget, [*advice(budget.free), NOTHING_DONE])
    say(f"memory: that is more than {device.info.name} has ({budget.text()}); tried all the same (device.ignore_heap)")


def refuse_hopeless(context: Context, what: str, found: Sequence[Alternative]) -> None:
    """Raises DoesNotFit where what the run keeps all the time is more than there is, whatever its settings: without planning it.

    found: what it keeps as it is, then with leaner settings."""
    from hierarchos.vulkan import DoesNotFit, budget_of

    budget = budget_of(context.device)
    if context.config.device.ignore_heap or min(one.need.total for one in found) <= budget.free:
        return
    leaner = [f"  {one.words}  {mebibytes(one.need.total)}" for one in found[1:]]
    advice = ["no batch is small enough, and no optimizer lean enough:", *leaner]
    raise DoesNotFit(f"{what}, not counting activations,", dict(found[0].need.items), context.device.info.name, budget,
                     [*advice, "take a smaller model or a larger device", NOTHING_DONE])


def refuse_large_package(config: Config, info: DeviceInfo) -> None:
    """Raises DoesNotFit where the weights of a local package alone are more than the device's memory: before its files are hashed."""
    from hierarchos.models.load import load_model
    from hierarchos.vulkan import DoesNotFit
    from hierarchos.vulkan.budget import Budget

    if config.model.source != "local" or config.device.ignore_heap:
        return
    stored = sum(file.stat().st_size for file in Path(config.model.path).glob("*.safetensors"))
    if stored * BASE_BYTES[config.precision.base] / 4 < info.heap_bytes / 4:          # also if the files hold 2 bytes for each weight
        return
    size = int(load_model(config.model.path, config.model.config).model.size * BASE_BYTES[config.precision.base])
    if size > info.heap_bytes:
        advice = ["take a smaller model or a larger device", "device.ignore_heap=true tries all the same; nothing was read"]
        raise DoesNotFit(f"{config.model.path}", {"weights": size}, info.name, Budget(info.heap_bytes, info.heap_bytes), advice)


def memory_line(need: Need) -> str:
    """The exact need and what it consists of."""
    parts = [f"{name} {mebibytes(size)}" for name, size in need.items.items() if size >= 1 << 19]
    return f"memory: {mebibytes(need.total)} at the peak" + (f" ({', '.join(parts)})" if parts else "")


def table_of(found: Sequence[Alternative], limit: int) -> list[str]:
    """Lines that say what other settings would need, those that fit marked."""
    if not found:
        return []
    width = max(len(one.words) for one in found)
    notes = ["  fits" if one.need.total <= limit else "" for one in found]
    lines = [f"  {one.words:<{width}}  {mebibytes(one.need.total):>12}{note}" for one, note in zip(found, notes, strict=True)]
    hint = ["sgd usually wants another train.learning_rate than adamw"] if any("=sgd" in one.words for one in found) else []
    return ["the same run would need with", *lines, *hint]
