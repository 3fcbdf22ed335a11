"""Loss and perplexity of the package on the validation rows (on all rows where none were held out)."""
from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.memory import require_memory
from pipelines.stages.base import BaseStage
from pipelines.stages.packages import batches, package_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.stage import Context


class Evaluate(BaseStage):
    """Facts: loss (nats a token), perplexity, tokens."""

    name = "evaluate"
    groups = ("evaluate", "peft")
    inputs = ("acquire", "tokenize", "export?")
    modules = ("hierarchos",)
    uses_device = True

    def check(self, config: Config) -> None:
        """Windows must meet."""
        window, stride = config.train.sequence_length, config.evaluate.stride
        if stride is not None and stride > window:
            raise UserError(f"evaluate.stride={stride} leaves tokens out of windows of {window}", where="configuration",
                            command=f"evaluate.stride={window // 2}")

    def run(self, context: Context) -> dict:
        """Reads the package back from disk: what is measured is what was written."""
        from hierarchos.training.need import Planner
        from hierarchos.training.precision import Precision
        from hierarchos.training.state import TrainingState
        from hierarchos.training.step import TrainStep, trained_tokens

        if context.config.evaluate.stride is not None:
            return strided(context)
        config, precision = context.config, Precision.of(context.config.precision)
        loaded = package_of(context)
        size = config.evaluate.batch_size
        stream = batches(context, VALIDATION, loaded.model, size, False) or batches(context, TRAIN, loaded.model, size, False)
        count = min(len(stream), config.evaluate.max_batches or len(stream))
        require_memory(context, "evaluation", Planner(loaded.model, context.device, precision).evaluation(stream.shapes()), smaller_batches)
        state = TrainingState(loaded.model, context.device, optimizer=None, precision=precision)
        state.load(loaded.values())
        step, bar, loss, tokens = TrainStep(state, config.train), context.progress.start("evaluate", count), 0.0, 0.0
        for index, batch in enumerate(islice(stream.epoch(), count)):
            weight = trained_tokens(batch)
            loss, tokens = loss + step.evaluate([batch]) * weight, tokens + weight
            bar.update(index + 1, loss=loss / tokens)
        bar.finish()
        return {"loss": loss / tokens, "perplexity": math.exp(min(loss / tokens, 700.0)), "tokens": round(tokens)}


def strided(context: Context) -> dict:
    """Perplexity of all rows as one text: every token but the first is scored once, behind what the window still holds of the text."""
    from hierarchos.data.token_file import TokenFile
    from hierarchos.generation.generator import Generator
    from hierarchos.generation.scoring import Scorer, windows
    from pipelines.stages.packages import tokenizer_of

    config, loaded, folder = context.config, package_of(context), context.artefacts["tokenize"].folder
    window, stride = config.train.sequence_length, config.evaluate.stride
    if loaded.model.task == "masked":
        raise UserError("this model is an encoder: it has no perplexity in strided windows", where="evaluate.stride")
    ids = TokenFile.load(folder / (VALIDATION if (folder / VALIDATION).exists() else TRAIN)).ids.tolist()
    generator = Generator.from_loaded(loaded, context.device, tokenizer_of(context))
    scorer = Scorer(generator.model, generator.store, generator.compile)
    parts = list(windows(len(ids), window, stride))[:config.evaluate.max_batches]
    bar, total, tokens = context.progress.start("evaluate", len(parts)), 0.0, 0
    for number, (begin, end, scored) in enumerate(parts):
        total -= scorer.score(ids[begin:end - scored], ids[end - scored:end]).log_likelihood
        tokens += scored
        bar.update(number + 1, loss=total / tokens)
    bar.finish()
    scorer.close()
    loss = total / max(tokens, 1)
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0)), "tokens": tokens, "windows": len(parts)}


def smaller_batches(limit: int) -> list[str]:
    """What helps where a package cannot be evaluated."""
    return ["a smaller evaluate.batch_size or train.sequence_length needs fewer activations; the weights have to fit in any case"]
