"""Matrix products measured before training (`device.autotune`), and the choices in run.json that a resumed run follows."""
from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pipelines.stage import Context


@contextmanager
def tuned(context: Context) -> Iterator[None]:
    """Programs planned inside have their products measured where the settings want it; choices of the run that is resumed come first."""
    from hierarchos.graph.tuning import tuning_file

    device, wanted, begun = context.device, context.config.device.autotune, time.perf_counter()
    identity, kept = tuning_file(device).stem, (context.run.manifest.get("tuning") or {}) if context.run else {}
    if kept.get("device") == identity:
        device.tuned |= {key: tuple(numbers) for key, numbers in kept["products"].items()}
    before = len(device.tuned)
    device.autotune = not device.info.software if wanted is None else wanted
    try:
        yield
    finally:
        device.autotune = False
        if context.run and len(device.tuned) > before:
            context.run.save(tuning={"device": identity, "products": device.tuned})
            context.progress.line(f"tuning: {len(device.tuned) - before} matrix products as measured on this device, "
                                  f"{time.perf_counter() - begun:.1f} s")
