"""Documents as one array of token ids, with what is trained; stored as safetensors beside a readable account."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hierarchos.errors import UserError

AGAIN = "run.force=tokenize  to make it again"


@dataclass(frozen=True)
class TokenFile:
    """Token ids of D documents with N tokens in all.

    ids: int32 [N]. offsets: int64 [D+1]; document d is ids[offsets[d]:offsets[d+1]]. trained: uint8 [N], 1 where a token is to be
    predicted. weights: float32 [N] or None for 1 everywhere. meta: what a manifest needs (vocabulary, tokenizer, stop ids, counts).
    """

    ids: np.ndarray
    offsets: np.ndarray
    trained: np.ndarray
    weights: np.ndarray | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each document, int64 [D]."""
        return np.diff(self.offsets)

    @cached_property
    def targets(self) -> np.ndarray:
        """bool [N]: tokens that are predicted. The first of a document never is, for nothing stands before it."""
        predicted = self.trained.astype(bool)
        predicted[self.offsets[:-1][self.lengths > 0]] = False
        return predicted

    @property
    def trained_tokens(self) -> int:
        return int(self.targets.sum())

    @cached_property
    def content_hash(self) -> str:
        """sha256 of the arrays: the identity of the data in cache keys and manifests."""
        digest = hashlib.sha256()
        for name, array in self._arrays().items():
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def select(self, documents: np.ndarray) -> TokenFile:
        """The given documents, in the given order."""
        starts, lengths = self.offsets[:-1][documents], self.lengths[documents]
        return self.cut(starts, starts + lengths)

    def cut(self, starts: np.ndarray, stops: np.ndarray) -> TokenFile:
        """Documents made of the ranges [start, stop) of the token array."""
        lengths = np.asarray(stops, np.int64) - np.asarray(starts, np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        source = np.repeat(np.asarray(starts, np.int64) - offsets[:-1], lengths) + np.arange(offsets[-1])
        weights = None if self.weights is None else self.weights[source]
        return TokenFile(self.ids[source], offsets, self.trained[source], weights, dict(self.meta))

    def save(self, path: Path) -> Path:
        """Writes `path` (safetensors) and its account `path`.json, each whole or not at all."""
        from safetensors.numpy import save

        account = {**self.meta, "documents": len(self), "tokens": len(self.ids), "trained_tokens": self.trained_tokens}
        account["content_hash"] = self.content_hash
        _write_whole(path, save(self._arrays(), metadata={"meta": json.dumps(account)}))
        _write_whole(path.with_name(path.name + ".json"), (json.dumps(account, indent=2) + "\n").encode())
        return path

    @classmethod
    def load(cls, path: Path) -> TokenFile:
        """Reads what `save` wrote; other or damaged content is an error."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                meta = json.loads((file.metadata() or {}).get("meta", "{}"))
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            loaded = cls(arrays["ids"], arrays["offsets"], arrays["trained"], arrays.get("weights"), meta)
        except FileNotFoundError:
            raise UserError("the token file is not there", where=str(path), command=AGAIN) from None
        except (SafetensorError, KeyError, json.JSONDecodeError) as error:
            raise UserError("not a token file, or damaged", where=str(path), hint=str(error)[:160], command=AGAIN) from None
        if meta.get("content_hash") != loaded.content_hash:
            raise UserError("the token file is damaged: its content is not what was written", where=str(path), command=AGAIN)
        return loaded

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"ids": self.ids, "offsets": self.offsets, "trained": self.trained}
        return arrays if self.weights is None else {**arrays, "weights": self.weights}


def _write_whole(path: Path, content: bytes) -> None:
    """A reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
