"""Prompts in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.generation.sampling import Sampling, choose
from hierarchos.generation.session import Session
from hierarchos.generation.stop import stop_ids
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec
from hierarchos.models.family import Model

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.models.load import Loaded
    from hierarchos.vulkan import Device

ROUND = 64      # the cache holds a multiple of this many tokens, so that programs are shared by similar lengths


@dataclass(frozen=True)
class Generated:
    """A continuation. stopped: "end" (a stop token) or "length". ids: of the new tokens, without the stop token."""

    prompt: str
    text: str
    ids: tuple[int, ...]
    stopped: str


class Generator:
    """Generates from the parameters in a store, on the device of that store."""

    def __init__(self, model: Model, tokenizer: TextTokenizer, store: StateStore, stop: frozenset[int] = frozenset(), compile=None):
        self.model, self.tokenizer, self.store = model, tokenizer, store
        self.stop = stop or (frozenset([tokenizer.eos_id]) if tokenizer.eos_id is not None else frozenset())
        self.compile = compile or _compile
        self.session: Session | None = None

    @classmethod
    def from_package(cls, folder: str | Path, device: Device) -> Generator:
        """Loads config, weights and tokenizer of a package onto a device."""
        from hierarchos.data.tokenizer import load_tokenizer
        from hierarchos.models.load import load_model

        return cls.from_loaded(load_model(folder), device, load_tokenizer(folder))

    @classmethod
    def from_loaded(cls, loaded: Loaded, device: Device, tokenizer: TextTokenizer) -> Generator:
        """Uploads the weights of an opened package, one tensor after the other."""
        store = StateStore(device)
        store.allocate("parameters", {spec.name: Spec(spec.shape) for spec in loaded.model.parameters})
        for name in loaded.match.source:
            store.write(name, loaded.value(name))
        return cls(loaded.model, tokenizer, store, stop_ids(loaded.package.folder))

    def encode(self, prompt: str) -> list[int]:
        """Ids of a prompt, with the BOS where the tokenizer puts one."""
        return encode_prompt(self.tokenizer, prompt)

    def generate(self, prompts: Sequence[str], max_new_tokens: int = 64, sampling: Sampling | None = None,
                 on_token: Callable[[int, int], None] | None = None) -> list[Generated]:
        """Continues all prompts together. on_token(row, id) is called for each new token as it comes."""
        rows = [self.encode(prompt) for prompt in prompts]
        self.check(rows, prompts, max_new_tokens)
        new: list[list[int]] = [[] for _ in rows]
        ended = [False] * len(rows)
        for row, token in self.tokens(rows, max_new_tokens, sampling or Sampling()):
            ended[row] = token in self.stop
            if not ended[row]:
                new[row].append(token)
                if on_token:
                    on_token(row, token)
        return [Generated(prompt, self.tokenizer.decode(ids), tuple(ids), "end" if end else "length")
                for prompt, ids, end in zip(prompts, new, ended, strict=True)]

    def tokens(self, rows: list[list[int]], max_new_tokens: int, sampling: Sampling) -> Iterator[tuple[int, int]]:
        """(row, new token id) as they are chosen, the stop token of a row included."""
        session = self._session(len(rows), max(map(len, rows)) + max_new_tokens)
        pending, running = rows, set(range(len(rows)))
        for _ in range(max_new_tokens):
            logits = session.extend(pending)
            chosen = {row: choose(logits[row], sampling, row, session.filled[row]) for row in sorted(running)}
            yield from chosen.items()
            running -= {row for row, token in chosen.items() if token in self.stop}
            if not running:
                return
            pending = [[chosen[row]] if row in running else [] for row in range(len(rows))]

    def close(self) -> None:
        """Gives the memory of programs and cache back; the store stays."""
        if self.session:
            self.session.close()
            self.session = None

    def _session(self, rows: int, tokens: int) -> Session:
        """The session of the last call when it fits, else a new one."""
        capacity = capacity_for(self.model, tokens)
        if self.session and (self.session.rows, self.session.capacity) == (rows, capacity):
            self.session.reset()
            return self.session
        self.close()
        self.session = Session(self.model, self.store, rows, capacity, self.compile)
        return self.session

    def check(self, rows: list[list[int]], prompts: Sequence[str], max_new_tokens: int) -> None:
        if not rows:
            raise UserError("there is no prompt", hint="prompt=\"Once upon a time\"")
        if max_new_tokens < 1:
            raise UserError(f"max_new_tokens is {max_new_tokens}; it can be 1 or more", where="generate.max_new_tokens")
        empty = [index for index, ids in enumerate(rows) if not ids]
        if empty:
            raise UserError(f"prompt {empty[0] + 1} is empty, and the tokenizer has no token that begins a text",
                            hint="give at least one character")
        limit, longest = self.model.config.max_positions, max(map(len, rows))
        if longest + max_new_tokens > limit:
            raise UserError(f"a prompt of {longest} tokens and {max_new_tokens} new ones need {longest + max_new_tokens} positions; "
                            f"the model has {limit}", where="generate.max_new_tokens",
                            hint=f"max_new_tokens can be {max(limit - longest, 0)} at most" if longest < limit else "shorten the prompt")
        vocabulary = self.model.config.vocab_size
        for ids, prompt in zip(rows, prompts, strict=True):
            if max(ids) >= vocabulary:
                raise UserError(f"the tokenizer gives id {max(ids)} for {prompt[:40]!r}; the embedding has {vocabulary} rows")


def encode_prompt(tokenizer: TextTokenizer, prompt: str) -> list[int]:
    """Ids of a prompt, with the BOS where the tokenizer puts one."""
    return ([tokenizer.bos_id] if tokenizer.adds_bos else []) + tokenizer.encode(prompt)


def capacity_for(model: Model, tokens: int) -> int:
    """Tokens that the cache of a row holds where so many are needed."""
    return min(-(-tokens // ROUND) * ROUND, model.config.max_positions)


def _compile(graph, store: StateStore):
    from hierarchos.graph.program import compile_program

    return compile_program(graph, store.device, store, label="decode")
