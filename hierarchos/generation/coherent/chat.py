"""A conversation with coherent-v9: turns in, answers out, state carried or history read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.data.formats import alpaca, user_lines
from hierarchos.generation.coherent.sampling import Sampling, choose, undecided
from hierarchos.generation.coherent.session import CoherentSession
from hierarchos.generation.coherent.state_file import ChatState, read_state, write_state
from hierarchos.models.coherent_v9.rosa import Automaton

if TYPE_CHECKING:
    import numpy as np

    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.generation.coherent.learning import Learner

SHORT = 5  # characters of a token in which "###" ends an answer
MARK = "###"


@dataclass(frozen=True)
class ChatOptions:
    """form: "alpaca" or "user". carry: turns go on from the state before; otherwise each starts from nothing and reads the history."""

    form: str = "alpaca"
    carry: bool = False
    system: str | None = None
    max_new_tokens: int = 512
    seed: int = 0


@dataclass(frozen=True)
class Answer:
    """text, its tokens, and why it ended: "end", "entropy", "end token", "heading" or "length"."""

    text: str
    tokens: list[int]
    stopped: str


def prompt_text(text: str, options: ChatOptions, history: list[tuple[str, str]]) -> str:
    """A turn as the model was taught to read it; history only where no state is carried."""
    text = f"[{options.system}]\n{text}" if options.system else text
    told = "" if options.carry else "\n".join(f"User: {asked}\nAssistant: {said}" for asked, said in history)
    if options.form == "alpaca":
        before = f"### Previous Context:\n{told}\n\n" if told else ""
        return before + alpaca(text)
    return (f"{told}\n\n" if told else "") + user_lines(text)


@dataclass(eq=False)
class Conversation:
    """A session, its tokenizer and what was said. identity: digests of weights and tokenizer, for the state file."""

    session: CoherentSession
    tokenizer: TextTokenizer
    sampling: Sampling
    options: ChatOptions
    identity: dict[str, str] = field(default_factory=dict)
    history: list[tuple[str, str]] = field(default_factory=list)
    state_file: Path | None = None  # written after every turn
    learner: Learner | None = None  # writes to the fast memory

    commands = ("/learn [TEXT]", "/reject", "/correct TEXT")

    def __post_init__(self):
        import numpy as np

        self.last = Answer("", [], "length")
        self.random = np.random.default_rng(self.options.seed)

    @property
    def system(self) -> str | None:
        """What stands before every turn's text."""
        return self.options.system

    @system.setter
    def system(self, text: str | None) -> None:
        self.options = replace(self.options, system=text)

    def reset(self) -> None:
        """Forgets the conversation."""
        self.session.reset()
        self.history = []

    def turn(self, text: str) -> Answer:
        """One question and its whole answer."""
        for _ in self.reply(text):
            pass
        return self.last

    def reply(self, text: str) -> Iterator[str]:
        """The answer to a question, piece by piece; both become part of the conversation, also when the caller stops early."""
        if not self.options.carry:
            self.session.reset(keep_memory=True)
        ids = self.tokenizer.encode(prompt_text(text, self.options, self.history))
        try:
            yield from self.stream(self.session.feed(ids)[0, -1])
        finally:
            self.history.append((text, self.last.text))
            if self.state_file:
                self.save(self.state_file)
        if self.learner:  # not from an answer that was stopped
            self.learner.after_turn(ids, self.last.tokens)

    def answer(self, logits: np.ndarray) -> Answer:
        """The whole text after these logits."""
        for _ in self.stream(logits):
            pass
        return self.last

    def stream(self, logits: np.ndarray) -> Iterator[str]:
        """Tokens until one ends the text; every chosen token is fed, so that the state knows the whole answer. `last` is the answer."""
        tokens, shown = [], ""
        self.last = Answer("", tokens, "length")
        for _ in range(self.options.max_new_tokens):
            doubt = undecided(logits, len(tokens), self.sampling, self.tokenizer.eos_id)
            if doubt:
                self.last = Answer(shown, tokens, doubt)
                break
            token = choose(logits, tokens, self.sampling, self.random)
            logits = self.session.feed([token])[0, -1]
            if (ending := self.ends(token)) is not None:
                self.last = Answer(shown, tokens, ending)
                break
            tokens.append(token)
            text = self.tokenizer.decode(tokens)
            if not text.endswith("\ufffd"):  # half of a character: its other half comes with the next token
                piece, shown = text[len(shown) :], text
                self.last = Answer(shown, tokens, "length")
                yield piece

    def ends(self, token: int) -> str | None:
        """Why an answer ends with this token, which is not shown."""
        if token == self.tokenizer.eos_id:
            return "end"
        text = self.tokenizer.decode([token])
        return "heading" if MARK in text and len(text.strip()) <= SHORT else None

    def command(self, name: str, rest: str) -> str | None:
        """/learn [TEXT], /reject, /correct TEXT: what came of it; None for a command of another name."""
        if name not in ("/learn", "/reject", "/correct") or (name == "/correct" and not rest):
            return None
        if not self.history or self.learner is None:
            return "there is no answer yet"
        asked = self.tokenizer.encode(prompt_text(self.history[-1][0], self.options, self.history[:-1]))
        said = self.target(self.history[-1][1])
        if name == "/correct":
            return self.learner.correct(asked, said, self.target(rest))
        return self.learner.teach(asked, self.target(rest) if name == "/learn" and rest else said, reject=name == "/reject")

    def target(self, text: str) -> list[int]:
        """An answer's tokens, its end among them."""
        return [*self.tokenizer.encode(text), self.tokenizer.eos_id]

    def save(self, path: str | Path) -> None:
        """Writes the state file."""
        rosa: Automaton | None = self.session.rosa[0] if self.session.rosa else None
        state = ChatState(self.session.state(), rosa, self.session.position, self.history)
        write_state(Path(path), self.session.cfg, state, self.identity)

    def load(self, path: str | Path) -> None:
        """Goes on from a state file; raises UserError for one of another model, and changes nothing then."""
        state = read_state(Path(path), self.session.cfg, self.identity)
        self.session.restore(state.parts, [state.rosa] if state.rosa is not None else None, state.position)
        self.history = list(state.history)
