"""Instruction rows that need no download: questions with one right answer, as chats, packed into rows of a fixed length."""
from __future__ import annotations

from pathlib import Path

import numpy as np

SUBJECTS = ("the sea", "a bicycle", "winter", "bread", "the moon", "a library", "rain", "a violin", "coffee", "a garden", "glass",
            "a train", "salt", "a candle", "the wind", "a river", "paper", "an apple", "a clock", "snow")
TASKS = ("Write one sentence about {0}.", "What do {0} and {1} have in common?", "Name three things that belong to {0}.",
         "Explain {0} to a child.", "Add {2} and {3}.", "Which is larger, {2} or {3}?", "Count from {2} to {3} in steps of {4}.")


def messages(number: int) -> list[dict]:
    """The chat of a row."""
    rng = np.random.default_rng([11, number])
    first, second = rng.choice(SUBJECTS, 2, replace=False)
    low, high, step = int(rng.integers(1, 40)), int(rng.integers(41, 90)), int(rng.integers(3, 9))
    task = number % len(TASKS)
    answers = (f"Here is one sentence about {first}: {first.capitalize()} is older than anyone who speaks of it.",
               f"Both {first} and {second} change how a quiet evening feels.",
               f"Three things that belong to {first} are its shape, its sound and the people who remember it.",
               f"Imagine {first} as a friend who is always there, even when you do not look.",
               f"The sum of {low} and {high} is {low + high}.", f"{high} is larger than {low}.",
               ", ".join(map(str, range(low, high + 1, step))) + ".")
    question = TASKS[task].format(first, second, low, high, step)
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answers[task]}]


def chat_rows(folder: Path, rows: int, length: int, count: int) -> list[dict]:
    """Batches of `rows` packed rows of `length` tokens; answers are trained, chats see only themselves."""
    from hierarchos.data.batches import BatchStream
    from hierarchos.data.encode import encode_examples
    from hierarchos.data.formats import Example
    from hierarchos.data.options import BatchOptions, EncodeOptions
    from hierarchos.data.rows import Row, RowReport
    from hierarchos.data.tokenizer import load_tokenizer

    made = [Example(Row("rows", n + 1, {}), messages=messages(n)) for n in range(12 * rows * count)]
    file = encode_examples(iter(made), load_tokenizer(folder), EncodeOptions(max_length=length), RowReport("error"))
    stream = BatchStream(file, BatchOptions(batch_size=rows, sequence_length=length, shuffle=False))
    return [stream.batch(index) for index in range(count)]
