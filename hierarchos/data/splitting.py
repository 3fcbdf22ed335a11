"""Holding data out for validation: whole documents, or the ends of long ones; and what guessing by frequency would score."""

from __future__ import annotations

import numpy as np

from hierarchos.data.batches import permutation
from hierarchos.data.token_file import TokenFile
from hierarchos.errors import UserError, nearest

FEW_DOCUMENTS = 100  # below this, holding out whole documents makes too coarse a share
LONG_END = 32  # tokens; shorter ends say little
SPLITS = ("auto", "documents", "ends")


def split_validation(file: TokenFile, fraction: float, seed: int = 0, by: str = "auto") -> tuple[TokenFile, TokenFile | None]:
    """(training, validation); validation is None for fraction 0.

    by="documents": documents in an order drawn from `seed`, until the share of tokens is reached; at least one on either side.
    by="ends": the last `fraction` of every document (at least 2 tokens, else the document stays whole in training).
    by="auto": "ends" for fewer than 100 documents of which the longest has an end of 32 tokens, and for a single one; else "documents",
    also where some tokens are not trained (the ends of prompt and completion rows hold all that is).
    """
    if by not in SPLITS:
        raise UserError(f"data.validation_by={by} is not a way to split", nearest=nearest(by, SPLITS), hint=f"ways: {', '.join(SPLITS)}")
    if not 0 <= fraction < 1:
        raise UserError(f"data.validation_fraction={fraction} is not in range", hint="from 0 to below 1")
    if fraction == 0:
        return file, None
    if by == "ends" or (by == "auto" and _ends_serve_better(file, fraction)):
        return _by_ends(file, fraction)
    return _by_documents(file, fraction, seed)


def _ends_serve_better(file: TokenFile, fraction: float) -> bool:
    """Few long documents without prompts, or one document."""
    few_and_long = len(file) < FEW_DOCUMENTS and fraction * int(file.lengths.max()) >= LONG_END
    return len(file) < 2 or (few_and_long and not _has_prompts(file))


def _has_prompts(file: TokenFile) -> bool:
    """Whether tokens other than the first of a document are left untrained."""
    return int(file.targets.sum()) < len(file.ids) - len(file)


def _by_documents(file: TokenFile, fraction: float, seed: int) -> tuple[TokenFile, TokenFile]:
    if len(file) < 2:
        raise UserError("one document cannot be split by documents", command="data.validation_by=ends")
    order = permutation(len(file), seed, epoch=0)
    wanted = fraction * len(file.ids)
    count = int(np.searchsorted(np.cumsum(file.lengths[order]), wanted)) + 1
    count = min(max(count, 1), len(file) - 1)
    return file.select(np.sort(order[count:])), file.select(np.sort(order[:count]))


def _by_ends(file: TokenFile, fraction: float) -> tuple[TokenFile, TokenFile]:
    held = np.floor(file.lengths * fraction).astype(np.int64)
    held[held < 2] = 0
    if not held.any():
        longest = int(file.lengths.max())
        hint = f"the longest document has {longest} tokens; {fraction:g} of it is less than 2"
        raise UserError("no document is long enough to hold out its end", hint=hint, command="data.validation_fraction=0")
    middle = file.offsets[1:] - held
    some = held > 0
    return file.cut(file.offsets[:-1], middle), file.cut(middle[some], file.offsets[1:][some])


def unigram_entropy(file: TokenFile) -> float:
    """Nats a token of the file's own token frequencies, over the tokens that are predicted: the loss of the best guesser that
    ignores context. H = -sum p log p."""
    counts = np.bincount(file.ids[file.targets])
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
