"""The tokenizer of a package: token ids, special tokens decided from ids, and the files that Transformers reads."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from hierarchos.errors import UserError

CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")


class TextTokenizer:
    """A `tokenizers.Tokenizer` with the ids of its special tokens (None where it has none) and its chat template."""

    def __init__(
        self,
        core: Any,
        *,
        bos: str | None = None,
        eos: str | None = None,
        pad: str | None = None,
        unk: str | None = None,
        chat_template: str | None = None,
        model_max_length: int | None = None,
        place: str = "tokenizer",
    ):
        self.core = core
        self.core.no_padding()
        self.core.no_truncation()
        self.names = {"bos_token": bos, "eos_token": eos, "pad_token": pad, "unk_token": unk}
        self.place = place
        self.bos_id, self.eos_id, self.pad_id = (self._checked_id(role) for role in ("bos_token", "eos_token", "pad_token"))
        self.chat_template = chat_template
        self.model_max_length = model_max_length

    def _checked_id(self, role: str) -> int | None:
        name = self.names[role]
        if name is None:
            return None
        found = self.core.token_to_id(name)
        if found is None:
            hint = f"add it to the vocabulary, or give another {role} in tokenizer_config.json"
            raise UserError(f"the {role} {name} is not a token", where=self.place, hint=hint)
        return found

    @cached_property
    def size(self) -> int:
        """Rows that an embedding needs: the largest id and one."""
        return max(self.core.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """Texts and ids of the added tokens that are marked special, and of the named ones."""
        added = {token.content: number for number, token in self.core.get_added_tokens_decoder().items() if token.special}
        named = {name: self.core.token_to_id(name) for name in self.names.values() if name is not None}
        return {**added, **named}

    @cached_property
    def adds_bos(self) -> bool:
        """Whether encoding with special tokens puts the BOS in front: seen from ids, not from a flag."""
        ids = self.core.encode("a", add_special_tokens=True).ids
        return self.bos_id is not None and ids[:1] == [self.bos_id]

    @cached_property
    def splits_exactly(self) -> bool:
        """Whether two texts encoded apart and put together decode to the two texts (not so with prefix spaces)."""
        ids = self.encode("Q: a") + self.encode("b c") + self.encode(" d")
        return self.core.decode(ids, skip_special_tokens=False) == "Q: ab c d"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of everything that changes ids: the tokenizer's JSON and the special tokens."""
        names = json.dumps(self.names, sort_keys=True)
        return hashlib.sha256((self.core.to_str() + names).encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Ids of the text alone; special tokens are never added here."""
        return self.core.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: list[str]) -> list[Any]:
        """`tokenizers.Encoding`s (ids, offsets in characters) of many texts, in parallel."""
        return self.core.encode_batch(texts, add_special_tokens=False)

    def encode_fast(self, texts: list[str]) -> list[list[int]]:
        """Ids of many texts, in parallel, without offsets."""
        return [encoding.ids for encoding in self.core.encode_batch_fast(texts, add_special_tokens=False)]

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return self.core.decode([int(number) for number in ids], skip_special_tokens=skip_special_tokens)

    def id_of(self, token: str) -> int | None:
        return self.core.token_to_id(token)

    def save(self, folder: Path) -> list[Path]:
        """Writes tokenizer.json, tokenizer_config.json and special_tokens_map.json, which AutoTokenizer loads."""
        folder.mkdir(parents=True, exist_ok=True)
        names = {role: name for role, name in self.names.items() if name is not None}
        config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **names}
        if self.model_max_length is not None:
            config["model_max_length"] = self.model_max_length
        if self.chat_template is not None:
            config["chat_template"] = self.chat_template
        contents = {
            "tokenizer.json": self.core.to_str(pretty=True),
            "tokenizer_config.json": json.dumps(config, indent=2, ensure_ascii=False) + "\n",
            "special_tokens_map.json": json.dumps(names, indent=2, ensure_ascii=False) + "\n",
        }
        for name, text in contents.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return [folder / name for name in contents]


def load_tokenizer(path: str | Path) -> TextTokenizer:
    """Reads tokenizer.json and what lies beside it. `path` is the file or its folder."""
    from tokenizers import Tokenizer

    path = Path(path)
    folder = path if path.is_dir() else path.parent
    file = folder / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise _no_tokenizer(file, folder)
    try:
        core = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception for every fault
        raise UserError("not a tokenizer of the tokenizers library", where=str(file), hint=str(error).splitlines()[0][:160]) from None
    config = _read_json(folder / "tokenizer_config.json")
    names = {**_read_json(folder / "special_tokens_map.json"), **config}
    length = config.get("model_max_length")
    return TextTokenizer(
        core,
        **{role.removesuffix("_token"): _token_text(names.get(role)) for role in ("bos_token", "eos_token", "pad_token", "unk_token")},
        chat_template=_chat_template(folder, config),
        model_max_length=length if isinstance(length, int) and length < 10**9 else None,  # Transformers writes 1e30 for "none"
        place=str(file),
    )


def _no_tokenizer(file: Path, folder: Path) -> UserError:
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    hint = [f"{folder} holds {', '.join(names[:8]) or 'nothing'}" if folder.is_dir() else f"{folder} is not there"]
    if "tokenizer.model" in names or "vocab.json" in names:
        hint.append("older tokenizer files are not read; convert once:")
        command = "python -c \"from transformers import AutoTokenizer; AutoTokenizer.from_pretrained('.').save_pretrained('.')\""
        return UserError("tokenizer.json is not there", where=str(file), hint=hint, command=command)
    return UserError(f"{file.name} is not there", where=str(file), hint=hint)


def _read_json(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"not JSON: {error}", where=str(file)) from None
    return value if isinstance(value, dict) else {}


def _token_text(value: Any) -> str | None:
    """A special token is written as its text or as an object with `content`."""
    return value.get("content") if isinstance(value, dict) else value


def _chat_template(folder: Path, config: dict[str, Any]) -> str | None:
    """chat_template.jinja wins over tokenizer_config.json, as in Transformers; of several named ones `default`."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    value = config.get("chat_template")
    if isinstance(value, list):
        named = {entry["name"]: entry["template"] for entry in value}
        return named.get("default")
    return value


def end_token(tokenizer: TextTokenizer) -> int:
    """The id of the end token; raises where there is none."""
    if tokenizer.eos_id is None:
        hint = "without one a model never learns to stop; name one as eos_token in tokenizer_config.json"
        raise UserError("the tokenizer has no end token", where=tokenizer.place, hint=hint)
    return tokenizer.eos_id


def check_vocabulary(tokenizer: TextTokenizer, embedding_rows: int) -> None:
    """Raises when the tokenizer can make an id that the embedding has no row for. More rows than ids is fine."""
    if tokenizer.size > embedding_rows:
        last = tokenizer.core.id_to_token(tokenizer.size - 1)
        hint = f"the tokenizer's largest id is {tokenizer.size - 1} ({last!r}); the embedding has {embedding_rows} rows"
        what = f"the vocabulary of {tokenizer.size} is larger than the embedding of {embedding_rows}"
        command = f"model.config.vocab_size={tokenizer.size}  for a new model, or tokenizer.source=model"
        raise UserError(what, where=tokenizer.place, hint=hint, command=command)
