"""Conversations to token ids: the template's text, and the assistant's tokens with those that end its turns."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from hierarchos.data.chat import CHATML, ChatTemplate, rendered_with_spans
from hierarchos.data.options import EncodeOptions
from hierarchos.data.tokenizer import CHATML_TOKENS, TextTokenizer
from hierarchos.errors import UserError

TOKEN_LIKE = re.compile(r"<\|[A-Za-z0-9_.\-]+\|>")  # what templates write for single tokens


class ChatEncoder:
    """Writes conversations with the package's template, or with ChatML when the tokenizer has its tokens."""

    def __init__(self, tokenizer: TextTokenizer, options: EncodeOptions):
        self.tokenizer, self.options = tokenizer, options
        self._checked: set[str] = set()

    @cached_property
    def template(self) -> ChatTemplate:
        source = self.options.chat_template or self.tokenizer.chat_template
        if source is None and all(self.tokenizer.id_of(token) is not None for token in CHATML_TOKENS):
            source = CHATML
        if source is None:
            tokens = ", ".join(CHATML_TOKENS)
            hint = [f"messages need one, or the tokens of ChatML: {tokens}", "give the template, or the file that holds it:"]
            command = "tokenizer.chat_template=template.jinja"
            raise UserError("the tokenizer has no chat template", where=self.tokenizer.place, hint=hint, command=command)
        given = self.options.chat_template is not None
        return ChatTemplate(source, self.tokenizer.names, "tokenizer.chat_template" if given else self.tokenizer.place)

    @cached_property
    def special(self) -> tuple[str, ...]:
        """Texts of special tokens, longest first so that none hides a longer one."""
        return tuple(sorted(self.tokenizer.special_tokens, key=len, reverse=True))

    def encode(self, messages: list[dict[str, Any]]) -> tuple[list[int], list[float], list[int]]:
        """Ids, weights (1 where trained) and the end-of-turn ids that are trained."""
        text, spans = rendered_with_spans(self.template, messages, self.special)
        self._check_tokens(text, messages)
        encoding = self.tokenizer.encode_batch([text])[0]
        context = 1.0 if self.options.train_on_prompt else 0.0
        ids, weights, stops = list(encoding.ids), [context] * len(encoding.ids), []
        for begin, end in spans:
            inside = _tokens_inside(encoding.offsets, begin, end)
            for index in inside:
                weights[index] = 1.0
            if inside and ids[inside[-1]] in self._special_ids:
                stops.append(ids[inside[-1]])
        return self._ended(ids, weights, stops)

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        return frozenset(self.tokenizer.special_tokens.values())

    def _ended(self, ids: list[int], weights: list[float], stops: list[int]) -> tuple[list[int], list[float], list[int]]:
        """A template without end-of-turn tokens gets the tokenizer's end token behind the conversation."""
        if stops or self.tokenizer.eos_id is None:
            return ids, weights, stops
        return [*ids, self.tokenizer.eos_id], [*weights, 1.0], [self.tokenizer.eos_id]

    def _check_tokens(self, text: str, messages: list[dict[str, Any]]) -> None:
        """What the template writes as one token must be one: else the model learns to spell it and never stops."""
        contents = "\n".join(str(message["content"]) for message in messages)
        for name in set(TOKEN_LIKE.findall(text)) - self._checked - set(TOKEN_LIKE.findall(contents)):
            if self.tokenizer.id_of(name) is None:
                hint = ["it would be spelled with several tokens, and generation would not stop at it"]
                hint.append("use a tokenizer that has it, or another template:")
                command = "tokenizer.chat_template=template.jinja"
                what = f"the chat template writes {name}, which is not a token"
                raise UserError(what, where=self.tokenizer.place, hint=hint, command=command)
            self._checked.add(name)


def _tokens_inside(offsets: list[tuple[int, int]], begin: int, end: int) -> list[int]:
    """Indices of tokens that overlap the characters [begin, end); space-only tokens can have no width."""
    return [i for i, (a, b) in enumerate(offsets) if (a < end and b > begin) or (a == b and begin < a < end)]
