"""A conversation with a model: turns through the chat template, and only new tokens through the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.data.rows import BadRow
from hierarchos.errors import UserError
from hierarchos.generation.generator import Generator
from hierarchos.generation.policy import Policy
from hierarchos.generation.stop import Stop
from hierarchos.generation.streaming import TextStream

if TYPE_CHECKING:
    from hierarchos.data.chat import ChatTemplate


class Conversation:
    """Messages so far; `reply` streams the next answer. The end of a turn is a stop token of the policy, or what the template writes
    behind an answer where that is a special token."""

    def __init__(self, generator: Generator, template: ChatTemplate, policy: Policy, system: str | None = None):
        self.generator, self.template, self.system = generator, template, system
        self.policy = replace(policy, eos_token_id=tuple(dict.fromkeys((*policy.eos_token_id, *turn_ends(generator, template)))))
        self.reset()

    def reset(self) -> None:
        """Forgets all turns but the system's."""
        self.messages = [{"role": "system", "content": self.system}] if self.system else []
        self.held: list[int] = []

    def reply(self, text: str) -> Iterator[str]:
        """The answer to a user's turn, piece by piece. Both become part of the conversation, also when the caller stops early.

        Raises UserError where the template refuses the turns, or the context has no room; the turn is then taken back."""
        self.messages.append({"role": "user", "content": text})
        try:
            ids = prompt_ids(self.generator, self.template, self.messages)
            self.generator.check([ids], [text], self._bounded(ids))
        except UserError:
            self.messages.pop()
            raise
        policy = self._bounded(ids)
        stop, stream, new = (
            Stop(policy, self.generator.tokenizer.decode),
            TextStream(self.generator.tokenizer.decode, policy.stop_strings),
            [],
        )
        try:
            for token in self.generator.stream(ids, policy, self._shared(ids)):
                new.append(token)
                self.held = [*ids, *new[:-1]]
                ended = stop.ended(new)
                if ended != "end" and (piece := stream.push(token)):
                    yield piece
                if ended:
                    break
            if rest := stream.finish():
                yield rest
        finally:
            self.messages.append({"role": "assistant", "content": stream.text})

    def take_back(self) -> None:
        """Forgets the last turn and its answer, and gives the cache's memory back: where the device had none left for it."""
        self.messages = self.messages[:-2]
        self.held = []
        self.generator.close()

    def _bounded(self, ids: list[int]) -> Policy:
        """Fewer new tokens where the context ends earlier."""
        room = self.generator.model.config.max_positions - len(ids)
        if room < 1:
            raise UserError(
                f"the conversation has {len(ids)} tokens; the model's context has {self.generator.model.config.max_positions}",
                hint="/reset begins anew",
                outcome="the turn was taken back",
            )
        return replace(self.policy, max_new_tokens=min(self.policy.new_tokens(len(ids)), room), max_length=None)

    def _shared(self, ids: list[int]) -> int:
        """How many of the tokens the cache has already."""
        return next((i for i, (a, b) in enumerate(zip(ids, self.held, strict=False)) if a != b), min(len(ids), len(self.held)))

    def save(self, path: str | Path) -> None:
        """Writes the conversation as one row of training data: {"messages": [...]}."""
        Path(path).write_text(json.dumps({"messages": self.messages}, ensure_ascii=False) + "\n", encoding="utf-8")


def prompt_ids(generator: Generator, template: ChatTemplate, messages: list[dict]) -> list[int]:
    """Ids of the turns and of what begins an answer, with one BOS at most."""
    try:
        text = template.render(messages, add_generation_prompt=True)
    except BadRow as refused:
        raise UserError(refused.detail, where=f"turn {len(messages)}", hint=refused.fixes, outcome="the turn was taken back") from None
    return generator.encode(text)


def turn_ends(generator: Generator, template: ChatTemplate) -> list[int]:
    """The special token that the template writes behind an answer, where it writes one."""
    mark = "answer"
    try:
        text = template.render([{"role": "user", "content": "question"}, {"role": "assistant", "content": mark}])
    except BadRow:
        return []
    behind = generator.tokenizer.encode(text[text.rfind(mark) + len(mark) :])
    return behind[:1] if behind and behind[0] in generator.tokenizer.special_tokens.values() else []
