"""Rules that change the scores of one row on the host, from its tokens so far: the logits processors of Transformers, in their order.

`scores` is float [V], `tokens` the prompt and what came after, `prompt` the prompt's length. Every rule returns new scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.generation.policy import Policy
from hierarchos.kernels.choose import penalised

if TYPE_CHECKING:
    import numpy as np

Rule = Callable[["np.ndarray", Sequence[int], int], "np.ndarray"]


def rules_of(policy: Policy, vocabulary: int, most_new: int) -> list[Rule]:
    """The rules that a policy asks for; `most_new` tokens are generated at most. Raises UserError for ids that are no tokens."""
    check_ids(policy, vocabulary)
    end = policy.eos_token_id
    least = policy.min_new_tokens if policy.min_new_tokens else 0
    candidates = [
        (policy.sequence_bias, partial(biased, bias=policy.sequence_bias)),
        (policy.repetition_penalty != 1, partial(repeated, penalty=policy.repetition_penalty)),
        (policy.no_repeat_ngram_size, partial(without_ngrams, size=policy.no_repeat_ngram_size)),
        (
            policy.bad_words_ids,
            partial(
                biased, bias=tuple((word, float("-inf")) for word in policy.bad_words_ids if word not in tuple((number,) for number in end))
            ),
        ),
        (policy.min_length and end, partial(not_before, ends=end, length=policy.min_length)),
        (least and end, partial(not_before_new, ends=end, count=least)),
        (policy.forced_bos_token_id is not None, partial(forced_at, ids=(policy.forced_bos_token_id,), length=1)),
        (policy.forced_eos_token_id, partial(forced_after, ids=policy.forced_eos_token_id, count=most_new - 1)),
        (policy.exponential_decay_length_penalty, partial(decayed, ends=end, penalty=policy.exponential_decay_length_penalty)),
        (policy.suppress_tokens, partial(suppressed, ids=policy.suppress_tokens)),
        (policy.begin_suppress_tokens, partial(suppressed_first, ids=policy.begin_suppress_tokens)),
    ]
    return [rule for asked, rule in candidates if asked]


def check_ids(policy: Policy, vocabulary: int) -> None:
    """Raises UserError where an option names an id that the model has no logit for."""
    named = {
        "bad_words_ids": sum(policy.bad_words_ids, ()),
        "sequence_bias": sum((ids for ids, _ in policy.sequence_bias), ()),
        "suppress_tokens": policy.suppress_tokens,
        "begin_suppress_tokens": policy.begin_suppress_tokens,
        "forced_eos_token_id": policy.forced_eos_token_id,
        "forced_bos_token_id": () if policy.forced_bos_token_id is None else (policy.forced_bos_token_id,),
    }
    for name, ids in named.items():
        if ids and max(ids) >= vocabulary:
            raise UserError(
                f"{name} names token {max(ids)}; the vocabulary has {vocabulary}", where=f"generate.{name}", outcome="nothing was generated"
            )


def biased(scores, tokens, prompt, bias):
    """Adds a bias to the last token of each sequence whose other tokens stand at the end."""
    result = scores.copy()
    for ids, value in bias:
        before = ids[:-1]
        if len(before) <= len(tokens) and tuple(tokens[len(tokens) - len(before) :]) == before:
            result[ids[-1]] += scores.dtype.type(value)
    return result


def repeated(scores, tokens, prompt, penalty):
    import numpy as np

    seen = np.zeros(len(scores), bool)
    seen[np.asarray(tokens, np.int64)] = True
    return penalised(scores, seen, penalty).astype(scores.dtype)


def without_ngrams(scores, tokens, prompt, size):
    """No group of `size` tokens twice, the prompt's among them."""
    if len(tokens) + 1 < size:
        return scores
    start = tuple(tokens[len(tokens) - size + 1 :]) if size > 1 else ()
    banned = [tokens[i + size - 1] for i in range(len(tokens) - size + 1) if tuple(tokens[i : i + size - 1]) == start]
    return suppressed(scores, tokens, prompt, banned)


def suppressed(scores, tokens, prompt, ids):
    result = scores.copy()
    result[list(ids)] = float("-inf")
    return result


def suppressed_first(scores, tokens, prompt, ids):
    return suppressed(scores, tokens, prompt, ids) if len(tokens) == prompt else scores


def not_before(scores, tokens, prompt, ends, length):
    return suppressed(scores, tokens, prompt, ends) if len(tokens) < length else scores


def not_before_new(scores, tokens, prompt, ends, count):
    return suppressed(scores, tokens, prompt, ends) if len(tokens) - prompt < count else scores


def forced_at(scores, tokens, prompt, ids, length):
    return only(scores, ids) if len(tokens) == length else scores


def forced_after(scores, tokens, prompt, ids, count):
    return only(scores, ids) if len(tokens) - prompt == count else scores


def only(scores, ids):
    """0 for these tokens, impossible for all others."""
    result = scores.copy()
    result[:] = float("-inf")
    result[list(ids)] = 0
    return result


def decayed(scores, tokens, prompt, ends, penalty):
    """The end tokens become likelier with every token after `start` new ones."""
    import numpy as np

    start, factor = penalty
    beyond = len(tokens) - prompt - start
    if beyond <= 0:
        return scores
    result, ends = scores.copy(), list(ends)
    more = np.abs(scores[ends]) * (factor**beyond - 1)
    result[ends] += np.where(np.isfinite(scores[ends]), more, 0).astype(scores.dtype)
    return result


def apply(rules: Sequence[Rule], scores, tokens: Sequence[int], prompt: int):
    """The scores after all rules."""
    for rule in rules:
        scores = rule(scores, tokens, prompt)
    return scores
