"""Multiple choice: which of several continuations a model finds likeliest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hierarchos.errors import UserError
from hierarchos.generation.scoring import Scored, Scorer

COLUMNS = ("context", "choices", "answer")


@dataclass(frozen=True)
class Question:
    """A context, continuations as they are written behind it (with their space), and the number of the right one."""

    context: str
    choices: tuple[str, ...]
    answer: int


@dataclass(frozen=True)
class Verdict:
    """The choice of the highest log-likelihood, and the one where it is divided by the choice's length in bytes."""

    scores: tuple[Scored, ...]
    best: int
    best_by_length: int


def read_questions(path: str | Path) -> list[Question]:
    """Rows {"context": text, "choices": [texts], "answer": number from 0} of a JSON-lines file; raises UserError with the line."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is not there", where="evaluate.choices")
    questions = list(_rows(path))
    if not questions:
        raise UserError(f"{path} has no question", where="evaluate.choices")
    return questions


def _rows(path: Path) -> Iterator[Question]:
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise UserError("the line is not JSON", where=f"{path}:{number}") from None
        if not isinstance(row, dict) or any(name not in row for name in COLUMNS):
            there = ", ".join(row) if isinstance(row, dict) else type(row).__name__
            raise UserError(f"a question has {', '.join(COLUMNS)}; this row has {there}", where=f"{path}:{number}")
        choices, answer = row["choices"], row["answer"]
        if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(choice, str) and choice for choice in choices):
            raise UserError("choices is not a list of two texts or more", where=f"{path}:{number}")
        if isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < len(choices):
            raise UserError(f"answer is {answer!r}; it is a number from 0 to {len(choices) - 1}", where=f"{path}:{number}")
        yield Question(str(row["context"]), tuple(choices), answer)


def judge(scorer: Scorer, tokenizer, question: Question) -> Verdict:
    """Scores every choice behind the context."""
    scores = tuple(scorer.score(*split(tokenizer, question.context, choice)) for choice in question.choices)
    by_length = [score.log_likelihood / len(choice.encode()) for score, choice in zip(scores, question.choices, strict=True)]
    likelihoods = [score.log_likelihood for score in scores]
    return Verdict(scores, likelihoods.index(max(likelihoods)), by_length.index(max(by_length)))


def split(tokenizer, context: str, choice: str) -> tuple[Sequence[int], Sequence[int]]:
    """Ids of the context and of what the choice adds to them: both are encoded as one text, and a space belongs to the choice."""
    from hierarchos.generation.generator import encode_prompt

    kept = context.rstrip(" ")
    whole = encode_prompt(tokenizer, context + choice)
    before = encode_prompt(tokenizer, kept)
    start = next((i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), min(len(before), len(whole)))
    start = min(start, len(whole) - 1)
    if start == 0 and tokenizer.bos_id is None and tokenizer.eos_id is not None:
        return [tokenizer.eos_id], whole
    return whole[:start], whole[start:]
