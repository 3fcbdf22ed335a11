"""Several sources as one: documents in proportion to weights, by tokens, always the same for the same seed."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from hierarchos.data.batches import mixed as hashed
from hierarchos.data.batches import permutation
from hierarchos.data.token_file import TokenFile
from hierarchos.errors import UserError

MOST_PASSES = 1000  # over one source; more is a mistake in the weights
Item = TypeVar("Item")


@dataclass(frozen=True)
class Share:
    """What the mixture has of one source: documents and tokens, and how often it was read (0.4: less than half of it)."""

    documents: int
    tokens: int
    passes: float


def mix(files: Mapping[str, TokenFile], weights: Mapping[str, float], until: str, seed: int) -> tuple[TokenFile, dict[str, Share]]:
    """One token file in which `weights` are the shares of the sources' tokens, anywhere in it to within a document.

    Each source gives its documents in an order drawn from the seed and its name. until="first": ends where a source has nothing left,
    so nothing comes twice; "all": ends when all of each has come, shorter sources begin again in a new order.
    """
    lasting = {name: len(file.ids) / weights[name] for name, file in files.items()}
    end = (min if until == "first" else max)(lasting.values())
    joined, first = join(list(files.values())), 0
    chosen, places = [], []
    for name, file in files.items():
        order, place = drawn(name, file, weights[name], end, seed)
        chosen.append(order + first)
        places.append(place)
        first += len(file)
    at = np.argsort(np.concatenate(places), kind="stable")
    shares = {name: share_of(file, part, first) for (name, file), part, first in zip(files.items(), chosen, starts(files), strict=True)}
    return joined.select(np.concatenate(chosen)[at]), shares


def drawn(name: str, file: TokenFile, weight: float, end: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Documents of a source in the order in which they come, and where each begins: tokens of the source before it / weight."""
    passes = math.ceil(end * weight / len(file.ids) - 1e-9)
    if passes > MOST_PASSES:
        raise UserError(f"data.mix.{name}.weight={weight:g} reads this source {passes} times over", where="data.mix",
                        hint=f"it has {len(file.ids)} tokens", command="data.mix_until=first")
    own = seed ^ zlib.crc32(name.encode())
    order = np.concatenate([permutation(len(file), own, number) for number in range(passes)])
    lengths = file.lengths[order]
    place = (np.cumsum(lengths) - lengths) / weight
    comes = place < end
    return order[comes], place[comes]


def join(files: list[TokenFile]) -> TokenFile:
    """The documents of all files, one file after the other."""
    sizes = np.cumsum([0, *(len(file.ids) for file in files)])
    offsets = np.concatenate([[0], *(file.offsets[1:] + before for file, before in zip(files, sizes[:-1], strict=True))]).astype(np.int64)
    weighted = any(file.weights is not None for file in files)
    weights = np.concatenate([weights_of(file) for file in files]) if weighted else None
    stop_ids = sorted({stop for file in files for stop in file.meta.get("stop_ids", ())})
    return TokenFile(np.concatenate([file.ids for file in files]), offsets, np.concatenate([file.trained for file in files]), weights,
                     {**files[0].meta, "stop_ids": stop_ids})


def weights_of(file: TokenFile) -> np.ndarray:
    """A weight for each token."""
    return file.trained.astype(np.float32) if file.weights is None else file.weights


def starts(files: Mapping[str, TokenFile]) -> list[int]:
    """Number of the first document of each in the joined file."""
    return np.cumsum([0, *(len(file) for file in files.values())])[:-1].tolist()


def share_of(file: TokenFile, chosen: np.ndarray, first: int) -> Share:
    tokens = int(file.lengths[chosen - first].sum())
    return Share(len(chosen), tokens, round(tokens / len(file.ids), 4))


def through_buffer(items: Iterable[Item], size: int, seed: int) -> Iterator[Item]:
    """The items in another order, with at most `size` of them kept: each new one takes the place of one drawn from the buffer."""
    waiting, items = [], iter(items)
    waiting.extend(islice(items, size))
    for number, item in enumerate(items):
        at = int(hashed(np.array([number ^ (seed & (2**63 - 1))], np.uint64))[0] % np.uint64(size))
        yield waiting[at]
        waiting[at] = item
    yield from (waiting[at] for at in permutation(len(waiting), seed, epoch=0))
