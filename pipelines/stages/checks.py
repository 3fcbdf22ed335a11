"""What can be known about a run before it starts, or before its long part does: packages, tokenizers, places, prompts."""
from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError, nearest
from pipelines.stages.adapters import check_adapters
from pipelines.stages.gguf import is_gguf, looked_at
from pipelines.system_errors import cannot_be_made

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.models.family import Model
    from pipelines.config import Config
    from pipelines.stage import Context

PROMPT_TOKENS = 8          # of the rows, where no prompt is given


def check_path(path: str, where: str) -> None:
    """A path that must exist, with the nearest name in its folder."""
    found = Path(path)
    if not found.exists():
        beside = [other.name for other in found.parent.iterdir()] if found.parent.is_dir() else []
        near = nearest(found.name, beside, 0.5)
        hint = () if found.parent.is_dir() else f"there is no folder {found.parent} either"
        hub = f"model=hub model.repo={path}  for a repository of huggingface.co" if where == "model.path" and is_repository(path) else None
        raise UserError(f"{path} is not there", where=where, nearest=str(found.parent / near) if near else None, hint=hint, command=hub)


def is_repository(path: str) -> bool:
    """Whether a path that is not there is spelled as a repository of the Hub: OWNER/NAME, and no folder OWNER."""
    return re.fullmatch(r"[A-Za-z0-9][\w-]*/[\w.-]+", path) is not None and not Path(path).parent.exists()


def check_new_folder(path: str, where: str) -> None:
    """A folder that a stage will make: it must not be there yet, and the one above it must take it."""
    wanted = Path(path)
    if wanted.exists():
        raise UserError(f"{path} is there already", where=where, hint="give a folder that does not exist yet")
    above = next(folder for folder in wanted.parents if folder.exists())
    if not above.is_dir():
        raise UserError(f"{path} lies below {above}, which is a file", where=where)
    try:
        os.rmdir(tempfile.mkdtemp(dir=above))              # the only question about permissions with a true answer
    except OSError as error:
        raise cannot_be_made(path, error, where) from None


def check_package(config: Config) -> None:
    """A local package or GGUF file: configuration, the shapes of its tensors and its tokenizer, all without reading a weight."""
    from hierarchos.data.tokenizer import check_vocabulary, load_tokenizer
    from hierarchos.models.load import load_model

    folder = config.model.path
    check_path(folder, "model.path")
    if is_gguf(folder):
        model, tokenizer = looked_at(config)
    elif Path(folder).is_dir():
        model, tokenizer = load_model(folder, config.model.config).model, None
    else:
        hint = "a package is a folder with config.json, tokenizer.json, *.safetensors; one file is read where it is NAME.gguf"
        raise UserError(f"{folder} is a file", where="model.path", hint=hint)
    check_adapters(config, model)
    check_context(config, model)
    if config.tokenizer.source in ("auto", "model") and {"tokenize", "generate"} & set(map(str, config.pipeline.stages)):
        check_vocabulary(tokenizer or load_tokenizer(folder), model.config.vocab_size)
    if config.tokenizer.source == "file":
        check_path(config.tokenizer.path, "tokenizer.path")
        check_vocabulary(load_tokenizer(config.tokenizer.path), model.config.vocab_size)


def check_tokenizer_file(config: Config) -> None:
    """A tokenizer of its own: one that can be read and has an end token."""
    from hierarchos.data.tokenizer import end_token, load_tokenizer

    check_path(config.tokenizer.path, "tokenizer.path")
    end_token(load_tokenizer(config.tokenizer.path))


def check_context(config: Config, model: Model) -> None:
    """Rows must not be longer than what the model can place."""
    limit, length = model.config.max_positions, config.train.sequence_length
    if "tokenize" in config.pipeline.stages and length > limit:
        raise UserError(f"train.sequence_length={length} is longer than the model's context of {limit}", where="configuration",
                        command=f"train.sequence_length={limit}")


def check_generation(context: Context, tokenizer: TextTokenizer, model: Model) -> None:
    """What the stage `generate` would refuse after training is refused before it."""
    from hierarchos.generation.generator import Generator
    from hierarchos.generation.policy import policy_from
    from pipelines.stages.generate import chat_text

    config, settings = context.config, context.config.generate
    if "generate" not in config.pipeline.stages or model.task == "masked":
        return
    prompt = settings.prompt
    if settings.chat:
        prompt = chat_text(prompt or "", tokenizer, config)
    generator = Generator(model, tokenizer, None)
    policy = policy_from({"max_new_tokens": settings.max_new_tokens, **settings.options}, "generate.options")
    ids = [0] * PROMPT_TOKENS if prompt is None else generator.encode(prompt)
    generator.check([ids], [prompt or ""], policy)
