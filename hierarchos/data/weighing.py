"""How much each token of a prompt and its answer counts, and how a pair that is too long is cut."""
from __future__ import annotations

from hierarchos.data.options import EncodeOptions


def pair_weights(options: EncodeOptions, prompt: int, answer: int) -> list[float]:
    """Weights of `prompt` tokens, then of an answer of `answer` tokens, the last of which ends it.

    The first `response_boundary_tokens` of the answer count `response_boundary_loss_weight` times as much; the end token never does."""
    first = min(options.response_boundary_tokens, answer - 1)
    given = options.prompt_loss_weight if options.train_on_prompt else 0.0
    usual = options.response_loss_weight
    return [given] * prompt + [usual * options.response_boundary_loss_weight] * first + [usual] * (answer - first)


def fitting_pair(options: EncodeOptions, ids: list[int], prompt: int) -> tuple[list[int], int]:
    """(ids, tokens of the prompt) cut to max_length + 1 tokens where rows are truncated and answers have reserved tokens.

    The prompt loses its beginning so that `min_response_tokens` of the answer and its end stay; then the answer is cut, and still ends."""
    most, reserved = options.max_length, options.min_response_tokens
    if most is None or options.on_long_row != "truncate" or not reserved or len(ids) <= most + 1:
        return ids, prompt
    answer = len(ids) - prompt - 1
    kept = max(most + 1 - (min(reserved, answer) + 1), most + 1 - (answer + 1), 0)
    given = ids[prompt - min(kept, prompt):prompt]
    rest = ids[prompt:-1][:most - len(given)]
    return [*given, *rest, ids[-1]], len(given)
