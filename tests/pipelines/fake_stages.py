"""Stages that take no time: what runner, cache, resume and sweeps promise is tested with these."""
from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from pipelines.stages.base import BaseStage

FAKE = """# hierarchos fake
pipeline:
  name: fake
  stages:
    - {_target_: tests.pipelines.fake_stages.Words}
    - {_target_: tests.pipelines.fake_stages.Learn}
"""


class Words(BaseStage):
    """Writes the seed into a file that the cache keeps."""

    name = "words"
    groups = ("tokenizer",)
    cached = True

    def run(self, context):
        (context.folder / "words.txt").write_text(str(context.config.tokenizer.vocab_size), encoding="utf-8")
        return {"words": context.config.tokenizer.vocab_size}


class Learn(BaseStage):
    """Reads the words. Fails for learning rate 13, the first time for 16; kills its process the first time for 14; interrupts for 15;
    waits the first time for 17."""

    name = "learn"
    groups = ("train",)
    inputs = ("words",)

    def run(self, context):
        rate, told = context.config.train.learning_rate, context.folder / "told"
        if rate == 13:
            raise ArithmeticError("the loss is not a number at step 7")
        if rate == 14 and not told.exists():
            told.write_text("", encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        if rate == 15 and not told.exists():
            told.write_text("", encoding="utf-8")
            raise KeyboardInterrupt
        if rate == 16 and not told.exists():
            told.write_text("", encoding="utf-8")
            raise ArithmeticError("only the first time")
        if rate == 17 and not told.exists():
            told.write_text("waits", encoding="utf-8")
            time.sleep(120)
        words = (context.artefacts["words"].folder / "words.txt").read_text(encoding="utf-8")
        with Path(context.config.run.outputs, "learned.txt").open("a", encoding="utf-8") as file:
            file.write(f"{rate}\n")
        return {"loss": rate * 2, "words": int(words), "resumed": context.resuming}


class Lost(BaseStage):
    """The device goes away."""

    name = "lost"

    def run(self, context):
        from hierarchos.vulkan.errors import DeviceLost

        raise DeviceLost("train step 3")


class Slow(BaseStage):
    """Waits to be stopped."""

    name = "slow"

    def run(self, context):
        time.sleep(60)


class Tell(BaseStage):
    """Says the prompt."""

    name = "tell"
    groups = ("generate",)
    inputs = ("words", "learn")

    def run(self, context):
        return {"told": context.config.generate.prompt}
