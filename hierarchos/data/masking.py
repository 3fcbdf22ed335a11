"""Batches for encoders: some tokens are hidden, and those are what is predicted (masked language modelling).

Which ones depends on the seed and the step alone, so a run can go on from any step, and validation hides the same tokens each time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hierarchos.data.batches import Batch, BatchStream, mixed
from hierarchos.data.options import BatchOptions
from hierarchos.data.token_file import TokenFile
from hierarchos.data.tokenizer import TextTokenizer
from hierarchos.data.tokens import UNTRAINED
from hierarchos.errors import UserError

MASKS = ("[MASK]", "<mask>", "<|mask|>")        # what tokenizers call it
STARTS = ("\u0120", "\u2581", "\u010a")         # byte-level space, SentencePiece's space, byte-level line end: a word begins
CONTINUES = "##"                                # WordPiece: a word goes on
HIDDEN, OTHER = 0.8, 0.1                        # of the chosen tokens: replaced by the mask, by any token; the others stay


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """mask: id of the mask token; size: of the vocabulary; special bool [size]: never chosen; starts bool [size]: a word begins here."""

    mask: int
    size: int
    special: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, tokenizer: TextTokenizer) -> Vocabulary:
        """Raises `UserError` where the tokenizer has no mask token."""
        mask = next((tokenizer.id_of(name) for name in MASKS if tokenizer.id_of(name) is not None), None)
        if mask is None:
            raise UserError("the tokenizer has no mask token, and an encoder learns from hidden tokens", where=tokenizer.place,
                            hint=f"one of {', '.join(MASKS)}; a tokenizer that is trained for an encoder gets one")
        special, starts = np.zeros(tokenizer.size, bool), np.ones(tokenizer.size, bool)
        special[list(tokenizer.special_tokens.values())] = True
        texts = tokenizer.core.get_vocab(with_added_tokens=False)
        wordpiece = any(text.startswith(CONTINUES) and text != CONTINUES for text in texts) and not any(map(_begins, texts))
        for text, number in texts.items():
            starts[number] = special[number] or (not text.startswith(CONTINUES) if wordpiece else _begins(text))
        return cls(mask, tokenizer.size, special, starts)


def _begins(text: str) -> bool:
    return text.startswith(STARTS)


@dataclass(frozen=True)
class Masking:
    """share: of tokens that are predicted; whole_words: all tokens of a word or none."""

    share: float = 0.15
    whole_words: bool = False


class MaskedStream(BatchStream):
    """The batches of a token file with tokens hidden; `targets[b, t]` is the id that stood at t, or -100."""

    def __init__(self, file: TokenFile, options: BatchOptions, vocabulary: Vocabulary, masking: Masking):
        super().__init__(file, options)
        self.vocabulary, self.masking = vocabulary, masking

    def batch(self, step: int) -> Batch:
        return hide(super().batch(step), self.vocabulary, self.masking, self.options.seed, step)


def hide(batch: Batch, vocabulary: Vocabulary, masking: Masking, seed: int, step: int) -> Batch:
    """The batch with tokens chosen and hidden: 80 % of them replaced by the mask, 10 % by any token, 10 % left as they are."""
    ids, segments = batch["ids"], batch["segments"]
    free = (segments > 0) & ~vocabulary.special[ids]
    words = word_numbers(ids, segments, vocabulary) if masking.whole_words else np.arange(ids.size).reshape(ids.shape)
    chance = uniform(ids.size, seed, step, 0)[words]
    chosen = free & (chance < masking.share)
    if not chosen.any():
        chosen = free & (chance == np.where(free, chance, 2.0).min())       # a step needs something to predict
    fate, other = uniform(ids.size, seed, step, 1).reshape(ids.shape), uniform(ids.size, seed, step, 2).reshape(ids.shape)
    hidden = np.where(fate < HIDDEN, vocabulary.mask, np.where(fate < HIDDEN + OTHER, (other * vocabulary.size).astype(np.int32), ids))
    weights = chosen.astype(np.float32)
    changed = Batch(batch, ids=np.where(chosen, hidden, ids).astype(np.int32), targets=np.where(chosen, ids, UNTRAINED).astype(np.int32),
                    token_weights=weights)
    changed.trained_tokens, changed.weight_sum = int(chosen.sum()), float(weights.sum(dtype=np.float64))
    return changed


def word_numbers(ids: np.ndarray, segments: np.ndarray, vocabulary: Vocabulary) -> np.ndarray:
    """i64 [B,T]: the place of the first token of each token's word, counted through the batch; words end with their document."""
    begins = vocabulary.starts[ids] | (np.diff(segments, axis=1, prepend=-1) != 0)
    return np.maximum.accumulate(np.where(begins, np.arange(ids.size).reshape(ids.shape), 0).ravel()).reshape(ids.shape)


def uniform(count: int, seed: int, step: int, stream: int) -> np.ndarray:
    """float64 [count] in [0, 1), from seed, step and stream alone."""
    salt = mixed(mixed(np.array([seed & (2**64 - 1)], np.uint64)) ^ np.uint64(4 * step + stream + 1))
    return (mixed(np.arange(count, dtype=np.uint64) ^ mixed(salt)) >> np.uint64(11)) * 2.0**-53
