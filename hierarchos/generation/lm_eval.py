"""A model of ours in the lm-eval harness (optional: pip install "hierarchos[lm-eval]").

from hierarchos.generation.lm_eval import harness_model
lm_eval.simple_evaluate(model=harness_model("PACKAGE", "auto"), tasks=["arc_easy"])
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hierarchos.errors import UserError
from hierarchos.generation.choices import split
from hierarchos.generation.generator import Generator, encode_prompt
from hierarchos.generation.scoring import Scorer


def harness_model(package: str | Path, device: str = "auto"):
    """An `lm_eval.api.model.LM` over a package on a device."""
    from hierarchos.vulkan import open_device

    return over(Generator.from_package(package, open_device(device)))


def over(generator: Generator):
    """An `lm_eval.api.model.LM` over a generator."""
    try:
        from lm_eval.api.model import LM
    except ImportError:
        raise UserError("the package lm-eval is not installed", command='pip install "hierarchos[lm-eval]"') from None
    scorer, tokenizer = Scorer(generator.model, generator.store, generator.compile), generator.tokenizer

    class Harness(LM):
        """Requests of the harness, one after the other."""

        def loglikelihood(self, requests):
            """(log-likelihood, greedy?) of each (context, continuation)."""
            found = [scorer.score(*split(tokenizer, *request.args)) for request in requests]
            return [(score.log_likelihood, score.greedy) for score in found]

        def loglikelihood_rolling(self, requests):
            """Log-likelihood of each whole text, in windows of the context that do not overlap."""
            window, results = generator.model.config.max_positions, []
            for request in requests:
                ids = encode_prompt(tokenizer, request.args[0])
                begins = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id
                ids = ids if ids[:1] == [begins] else [begins, *ids]
                mean, count = scorer.perplexity(ids, window, window)
                results.append(-mean * count)
            return results

        def generate_until(self, requests):
            """The text of each (context, options) before the first of its `until`."""
            return [continued(generator, *request.args) for request in requests]

    return Harness()


def continued(generator: Generator, context: str, options: dict) -> str:
    """The continuation of a context, cut at the first stop text."""
    until = options.get("until") or []
    until = [until] if isinstance(until, str) else list(until)
    policy = replace(
        generator.policy, max_new_tokens=options.get("max_gen_toks", 256), stop_strings=tuple(until), do_sample=False, num_beams=1
    )
    if options.get("do_sample") and options.get("temperature", 1.0) > 0:
        policy = replace(policy, do_sample=True, temperature=float(options.get("temperature", 1.0)))
    [result] = generator.generate([context], policy)
    text = result.text
    for stop in until:
        text = text.partition(stop)[0]
    return text
