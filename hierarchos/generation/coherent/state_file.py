"""A conversation's state on disk: everything that the next turn needs, bound to the model and the tokenizer that made it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.contract import check_contract, contract_of, digest_of
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.models.coherent_v9.rosa import Automaton
from hierarchos.models.coherent_v9.state import state_shapes

if TYPE_CHECKING:
    import numpy as np

KIND, VERSION = "hierarchos_chat_runtime_state", 4
UNTOUCHED = "the file is unchanged, the conversation was not continued"


@dataclass(frozen=True, eq=False)
class ChatState:
    """parts: the carried state of one row by name; rosa: its automaton or None; history: (question, answer) of each turn."""

    parts: Mapping[str, np.ndarray]
    rosa: Automaton | None
    position: int
    history: list[tuple[str, str]] = field(default_factory=list)


def weights_digest(cfg: Config, values: Mapping[str, np.ndarray]) -> str:
    """SHA-256 over all learned tensors, in order."""
    import numpy as np

    total = sha256()
    for spec in parameters(cfg):
        total.update(np.ascontiguousarray(values[spec.name], np.float32).tobytes())
    return total.hexdigest()


def write_state(path: Path, cfg: Config, state: ChatState, identity: Mapping[str, str]) -> None:
    """Writes aside and renames; replaces a chat state, and nothing else. identity: digests of weights and tokenizer."""
    if path.is_file() and f'"kind": "{KIND}"'.encode() not in path.read_bytes()[:200]:
        raise UserError(f"{path.name} holds something that is not a chat state, so it is not replaced", where=str(path),
                        outcome="nothing was written")
    contract = contract_of(cfg)
    content = {
        "kind": KIND,
        "version": VERSION,
        "architecture_contract": contract,
        "architecture_contract_sha256": digest_of(contract),
        "identity": dict(identity),
        "position": state.position,
        "history": state.history,
        "rosa": None if state.rosa is None else state.rosa.to_json(),
        "state": {
            name: {"shape": list(array.shape), "values": [float(x) for x in array.reshape(-1)]} for name, array in state.parts.items()
        },
    }
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(content), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise UserError(
            f"the chat state cannot be written: {error.strerror}", where=str(path), outcome="the conversation itself is not lost"
        ) from error


def read_state(path: Path, cfg: Config, identity: Mapping[str, str]) -> ChatState:
    """Reads a state; refuses that of another model, other weights or another tokenizer, and one that is not finite."""
    content = _json(path)
    if content.get("kind") != KIND or content.get("version") != VERSION:
        raise UserError(
            f"this is no chat state of version {VERSION}: kind {content.get('kind')!r}, version {content.get('version')!r}",
            where=str(path),
            outcome=UNTOUCHED,
        )
    contract, digest = content.get("architecture_contract"), content.get("architecture_contract_sha256")
    if not isinstance(contract, dict) or not isinstance(digest, str):
        raise _wrong(path, "it does not say which model made it")
    check_contract(contract_of(cfg), contract, digest, str(path), UNTOUCHED)
    for what, digest in identity.items():
        known = content.get("identity")
        if not isinstance(known, dict) or known.get(what) != digest:
            raise UserError(
                f"the chat state was made with other {what}",
                where=str(path),
                outcome=UNTOUCHED,
                hint="start a new conversation, or give the package that it was made with",
            )
    return ChatState(_parts(path, cfg, content.get("state")), _automaton(path, cfg, content.get("rosa")), _position(path, content),
                     _history(path, content))


def _wrong(path: Path, what: str) -> UserError:
    return UserError(f"the chat state is damaged: {what}", where=str(path), outcome=UNTOUCHED)


def _position(path: Path, content: dict) -> int:
    position = content.get("position")
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise _wrong(path, f"position is {position!r}, not a number of tokens")
    return position


def _history(path: Path, content: dict) -> list[tuple[str, str]]:
    turns = content.get("history")
    if not isinstance(turns, list) or not all(isinstance(turn, list) and list(map(type, turn)) == [str, str] for turn in turns):
        raise _wrong(path, "history is no list of questions with answers")
    return [tuple(turn) for turn in turns]


def _automaton(path: Path, cfg: Config, stored: object) -> Automaton | None:
    """ROSA's automaton, once it is the one that its tokens make."""
    if not cfg.use_rosa:
        return None
    try:
        tokens = stored["tokens"]
        assert all(type(token) is int and 0 <= token < cfg.vocab_size for token in tokens)
        made = Automaton(cfg.rosa_cap)
        made.feed_all(tokens)
        assert made.to_json() == Automaton.from_json(stored).to_json()
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError):
        raise _wrong(path, "rosa is not what its tokens make") from None
    return made


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        assert isinstance(content, dict)
    except (OSError, ValueError, AssertionError):
        raise UserError("the chat state cannot be read: it is not a JSON object", where=str(path), outcome=UNTOUCHED) from None
    return content


def _parts(path: Path, cfg: Config, stored: object) -> dict[str, np.ndarray]:
    import numpy as np

    parts = {}
    for name, shape in state_shapes(cfg, 1).items():
        entry = stored.get(name) if isinstance(stored, dict) else None
        if not isinstance(entry, dict) or tuple(entry.get("shape", ())) != shape:
            found = f"has shape {entry.get('shape')}" if isinstance(entry, dict) else "is missing"
            raise UserError(f"{name} {found}; this model carries {list(shape)}", where=str(path), outcome=UNTOUCHED)
        try:
            parts[name] = np.array(entry.get("values"), np.float32).reshape(shape)
        except (TypeError, ValueError):
            raise _wrong(path, f"the values of {name} are not {' x '.join(map(str, shape))} numbers") from None
        if not np.isfinite(parts[name]).all():
            raise UserError(f"{name} holds a value that is not finite", where=str(path), outcome=UNTOUCHED)
    return parts
