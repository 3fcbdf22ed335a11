"""Which of several continuations a model finds likeliest: accuracy over the questions of `evaluate.choices`."""
from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.files import write_text
from pipelines.stages.base import BaseStage
from pipelines.stages.packages import package_of

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.stage import Context


class Choices(BaseStage):
    """Facts: questions, accuracy, accuracy_by_length (log-likelihoods divided by bytes). choices.jsonl: the scores of every question."""

    name = "choices"
    groups = ("evaluate", "peft")
    inputs = ("acquire", "export?")
    modules = ("hierarchos",)
    uses_device = True

    def check(self, config: Config) -> None:
        """The file is read before anything starts."""
        from hierarchos.generation.choices import read_questions

        if config.evaluate.choices is None:
            raise UserError("evaluate.choices has to be given", where="needed by choices", command="evaluate.choices=questions.jsonl")
        read_questions(config.evaluate.choices)

    def key(self, context: Context) -> dict:
        """The questions by their content."""
        from pipelines.hashing import hash_file

        return super().key(context) | {"questions": hash_file(Path(context.config.evaluate.choices))}

    def run(self, context: Context) -> dict:
        """Scores every choice behind its context."""
        from hierarchos.data.tokenizer import check_vocabulary, load_tokenizer
        from hierarchos.generation.choices import judge, read_questions
        from hierarchos.generation.generator import Generator
        from hierarchos.generation.scoring import Scorer

        loaded = package_of(context)
        if loaded.model.task == "masked":
            raise UserError("this model is an encoder: it gives texts no likelihood", where="choices")
        tokenizer = load_tokenizer(loaded.package.folder)
        check_vocabulary(tokenizer, loaded.model.config.vocab_size)
        generator = Generator.from_loaded(loaded, context.device, tokenizer)
        scorer, questions = Scorer(generator.model, generator.store, generator.compile), read_questions(context.config.evaluate.choices)
        bar, right, right_by_length, lines = context.progress.start("choices", len(questions)), 0, 0, []
        for number, question in enumerate(questions, 1):
            verdict = judge(scorer, tokenizer, question)
            right += verdict.best == question.answer
            right_by_length += verdict.best_by_length == question.answer
            lines.append(json.dumps({"log_likelihoods": [score.log_likelihood for score in verdict.scores], "best": verdict.best,
                                     "best_by_length": verdict.best_by_length, "answer": question.answer}))
            bar.update(number, accuracy=right / number)
        bar.finish()
        scorer.close()
        write_text(context.folder / "choices.jsonl", "\n".join(lines) + "\n")
        return {"questions": len(questions), "accuracy": right / len(questions), "accuracy_by_length": right_by_length / len(questions)}
