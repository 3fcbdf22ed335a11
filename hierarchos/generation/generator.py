"""Prompts in, texts out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.generation.beams import BeamSearch
from hierarchos.generation.contrastive import contrastive_tokens
from hierarchos.generation.policy import Policy, package_policy
from hierarchos.generation.rules import apply, rules_of
from hierarchos.generation.session import Session
from hierarchos.generation.stop import Stop
from hierarchos.graph.store import StateStore
from hierarchos.kernels.choose import token_of
from hierarchos.models.family import Model
from hierarchos.nn.stored import as_stored, place_of

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.models.load import Loaded
    from hierarchos.vulkan import Device

ROLL_BACK = 100  # tokens that a session may forget: fewer than a ring has beyond its window, less what runs ahead
ROUND = 64  # the cache holds a multiple of this many tokens, so that programs are shared by similar lengths


@dataclass(frozen=True)
class Generated:
    """A continuation. stopped: "end" (a stop token), "stop string", "time" or "length". ids: of the new tokens, without the stop token.

    score: of beam search, the sum of log-probabilities divided by length ** length_penalty."""

    prompt: str
    text: str
    ids: tuple[int, ...]
    stopped: str
    score: float | None = None


class Generator:
    """Generates from the parameters in a store, on the device of that store. `policy`: what a call does not say otherwise.

    The model may be an adapted one: all that is asked of it are `weights()` and `forward`, and of the store the states these name."""

    def __init__(self, model: Model, tokenizer: TextTokenizer, store: StateStore, policy: Policy | None = None, compile=None):
        ends = (tokenizer.eos_id,) if tokenizer.eos_id is not None else ()
        policy = policy or Policy()
        self.policy = policy if policy.eos_token_id else replace(policy, eos_token_id=ends)
        self.model, self.tokenizer, self.store = model, tokenizer, store
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
        policy = package_policy(loaded.package.folder)
        store = StateStore(device)
        specs = {spec.name: spec for spec in loaded.model.parameters}
        store.allocate("parameters", {name: place_of(spec) for name, spec in specs.items()})
        for name, value in loaded.values().items():
            store.write(name, as_stored(specs[name], value))
        return cls(loaded.model, tokenizer, store, policy)

    def encode(self, prompt: str) -> list[int]:
        """Ids of a prompt, with the BOS where the tokenizer puts one."""
        return encode_prompt(self.tokenizer, prompt)

    def generate(
        self,
        prompts: Sequence[str],
        policy: Policy | None = None,
        on_token: Callable[[int, int], None] | None = None,
        ids: Sequence[Sequence[int]] | None = None,
    ) -> list[Generated]:
        """Continues all prompts together: num_return_sequences results of each, one after the other.

        on_token(row, id) is called for each new token as it comes (not of beams). ids: of the prompts, where they are encoded already."""
        policy = policy or self.policy
        rows = [list(row) for row in ids] if ids is not None else [self.encode(prompt) for prompt in prompts]
        self.check(rows, prompts, policy)
        if policy.num_beams > 1 or policy.contrastive:
            search = self._beams if policy.num_beams > 1 else self._contrastive
            return [
                result
                for number, (prompt, row) in enumerate(zip(prompts, rows, strict=True))
                for result in search(number, prompt, row, policy)
            ]
        times = policy.num_return_sequences
        prompts, rows = [p for p in prompts for _ in range(times)], [row for row in rows for _ in range(times)]
        return self._together(prompts, rows, policy, on_token)

    def _together(self, prompts, rows: list[list[int]], policy: Policy, on_token) -> list[Generated]:
        """One token of every row a step, until each has ended."""
        new: list[list[int]] = [[] for _ in rows]
        stops = [Stop(policy, self.tokenizer.decode) for _ in rows]
        most = [policy.new_tokens(len(row)) for row in rows]
        why: list[str | None] = [None] * len(rows)
        session = self._session(len(rows), max(map(len, rows)) + max(most))
        steps = (
            self._on_device(session, rows, policy, max(most))
            if policy.on_device
            else self._on_host(session, rows, new, why, policy, max(most))
        )
        for tokens in steps:
            for row, token in enumerate(tokens):
                if why[row] is None:
                    self._refuse_damaged(token, row, len(rows[row]) + len(new[row]))
                    new[row].append(token)
                    why[row] = stops[row].ended(new[row]) or ("length" if len(new[row]) >= most[row] else None)
                    if on_token and why[row] != "end":
                        on_token(row, token)
            if all(why):
                break
        return [self._result(prompt, tokens, ended) for prompt, tokens, ended in zip(prompts, new, why, strict=True)]

    def stream(self, ids: Sequence[int], policy: Policy, held: int = 0) -> Iterator[int]:
        """New tokens behind `ids` one by one, end tokens included; the caller says when to stop. The session of the call before may still
        have the first `held` of the ids."""
        rows, most, new, why = [list(ids)], policy.new_tokens(len(ids)), [[]], [None]
        session = self._kept_session(len(ids) + most, min(held, len(ids) - 1))
        steps = self._on_device(session, rows, policy, most) if policy.on_device else self._on_host(session, rows, new, why, policy, most)
        for [token] in steps:
            self._refuse_damaged(token, 0, len(ids) + len(new[0]))
            new[0].append(token)
            yield token

    def _kept_session(self, tokens: int, held: int) -> Session:
        """A session of one row that has so many tokens already, or a larger new one without any."""
        session = self.session
        fits = session and (session.rows, session.hidden) == (1, False) and session.capacity >= tokens
        if not fits or session.filled[0] - held > ROLL_BACK:
            return self._session(1, tokens)
        session.filled = [min(held, session.filled[0])]
        return session

    def _on_device(self, session: Session, rows, policy: Policy, most: int) -> Iterator[list[int]]:
        """Tokens of all rows, step by step, chosen on the device: the prompts but for their last tokens are prefilled."""
        import numpy as np

        seen = None
        if policy.repetition_penalty != 1:
            seen = np.zeros((len(rows), self.model.config.vocab_size), np.uint32)
            for row, tokens in enumerate(rows):
                seen[row, tokens] = 1
        missing = [row[held:-1] for row, held in zip(rows, session.filled, strict=True)]
        if any(missing):
            session.extend(missing)
        yield from session.steps([row[-1] for row in rows], most, policy.drawing, seen)

    def _on_host(self, session: Session, rows, new: list[list[int]], why: list, policy: Policy, most: int) -> Iterator[list[int]]:
        """The same where rules look at each row's tokens: the logits come back."""
        drawing = replace(policy.drawing, repetition_penalty=1.0)
        rules = [rules_of(policy, self.model.config.vocab_size, policy.new_tokens(len(row))) for row in rows]
        pending = [row[held:] for row, held in zip(rows, session.filled, strict=True)]
        for _ in range(most):
            logits = session.extend(pending)
            tokens = [0] * len(rows)
            for row, prompt in enumerate(rows):
                if why[row] is None:
                    scores = apply(rules[row], logits[row], [*prompt, *new[row]], len(prompt))
                    tokens[row] = token_of(scores, drawing, row, session.filled[row] - 1)
            yield tokens
            pending = [[token] if why[row] is None else [] for row, token in enumerate(tokens)]

    def _beams(self, number: int, prompt: str, ids: list[int], policy: Policy) -> Iterator[Generated]:
        """Beam search of one prompt: its beams are the rows."""
        most = policy.new_tokens(len(ids))
        session, stop = self._session(policy.num_beams, len(ids) + most), Stop(policy, self.tokenizer.decode)
        search = BeamSearch(policy, rules_of(policy, self.model.config.vocab_size, most), ids, most, stop.ended, number)
        logits = session.extend([ids] * policy.num_beams)
        while (chosen := search.step(logits)) is not None:
            session.reorder([parent for parent, _ in chosen])
            logits = session.extend([[token] for _, token in chosen])
        for beam in search.results():
            yield replace(self._result(prompt, list(beam.tokens), stop.ended(beam.tokens) or "length"), score=beam.score)

    def _contrastive(self, number: int, prompt: str, ids: list[int], policy: Policy) -> Iterator[Generated]:
        most = policy.new_tokens(len(ids))
        session, stop, new, why = self._session(policy.top_k, len(ids) + most + 1, True), Stop(policy, self.tokenizer.decode), [], None
        for token in contrastive_tokens(session, ids, policy, rules_of(policy, self.model.config.vocab_size, most), most):
            new.append(token)
            why = stop.ended(new)
            if why:
                break
        yield self._result(prompt, new, why or "length")

    def _result(self, prompt: str, tokens: list[int], why: str | None) -> Generated:
        ids = tokens[:-1] if why == "end" else tokens
        return Generated(prompt, self.tokenizer.decode(ids), tuple(ids), why or "length")

    def _refuse_damaged(self, token: int, row: int, position: int) -> None:
        if token < 0:
            raise UserError(
                f"the logits of row {row} at position {position} are not finite: the weights are damaged or overflow",
                outcome="generation stopped",
            )

    def close(self) -> None:
        """Gives the memory of programs and cache back; the store stays."""
        if self.session:
            self.session.close()
            self.session = None

    def _session(self, rows: int, tokens: int, hidden: bool = False) -> Session:
        """The session of the last call when it fits, else a new one."""
        capacity = capacity_for(self.model, tokens)
        if self.session and (self.session.rows, self.session.capacity, self.session.hidden) == (rows, capacity, hidden):
            self.session.reset()
            return self.session
        self.close()
        self.session = Session(self.model, self.store, rows, capacity, self.compile, hidden)
        return self.session

    def check(self, rows: list[list[int]], prompts: Sequence[str], policy: Policy) -> None:
        """Raises UserError where a request does not fit the model."""
        if not rows:
            raise UserError("there is no prompt", hint='prompt="Once upon a time"')
        empty = [index for index, ids in enumerate(rows) if not ids]
        if empty:
            raise UserError(
                f"prompt {empty[0] + 1} is empty, and the tokenizer has no token that begins a text", hint="give at least one character"
            )
        limit, longest = self.model.config.max_positions, max(map(len, rows))
        new = policy.new_tokens(longest)
        if new < 1:
            raise UserError(
                f"a prompt of {longest} tokens leaves none of max_length {policy.max_length}",
                where="generate.max_length",
                hint=f"max_length has to be above {longest}",
            )
        if longest + new > limit:
            raise UserError(
                f"a prompt of {longest} tokens and {new} new ones need {longest + new} positions; the model has {limit}",
                where="generate.max_new_tokens",
                hint=f"max_new_tokens can be {max(limit - longest, 0)} at most" if longest < limit else "shorten the prompt",
            )
        vocabulary = self.model.config.vocab_size
        for ids, prompt in zip(rows, prompts, strict=True):
            if max(ids) >= vocabulary:
                raise UserError(
                    f"the tokenizer gives id {max(ids)} for {prompt[:40]!r}; the embedding has {vocabulary} rows",
                    hint="the tokenizer belongs to another model",
                    outcome="nothing was generated",
                )


def encode_prompt(tokenizer: TextTokenizer, prompt: str) -> list[int]:
    """Ids of a prompt with one BOS where the tokenizer or the text (a chat template's) puts one, as in training; never two."""
    ids = tokenizer.encode(prompt)
    written = next((i for i, number in enumerate(ids) if number != tokenizer.bos_id), len(ids)) if tokenizer.bos_id is not None else 0
    return [tokenizer.bos_id, *ids[written:]] if written or tokenizer.adds_bos else ids


def capacity_for(model: Model, tokens: int) -> int:
    """Tokens that the cache of a row holds where so many are needed."""
    return min(-(-tokens // ROUND) * ROUND, model.config.max_positions)


def _compile(graph, store: StateStore):
    from hierarchos.graph.program import compile_program

    return compile_program(graph, store.device, store, label="decode")
