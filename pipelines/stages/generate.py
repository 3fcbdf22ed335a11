"""Lets the model write: continues `generate.prompt`, or the beginning of the rows where none is given."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.files import write_text
from pipelines.memory import require_memory
from pipelines.stages.base import BaseStage
from pipelines.stages.packages import package_of
from pipelines.stages.tokenize import TRAIN, VALIDATION, encode_options

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from pipelines.config import Config
    from pipelines.stage import Context

PROMPT_TOKENS = 8          # of the rows, where no prompt is given


class Generate(BaseStage):
    """Facts: `text`, what the model wrote after the prompt; `new_tokens`. Also written to text.txt."""

    name = "generate"
    groups = ("generate", "peft")
    inputs = ("acquire", "tokenize?", "export?")
    modules = ("hierarchos",)
    uses_device = True

    def check(self, config: Config) -> None:
        """Without rows there must be a prompt."""
        if config.generate.prompt is None and "tokenize" not in config.pipeline.stages:
            raise UserError("generate.prompt has to be given", where="needed by generate", command='prompt="Once upon a time"')

    def run(self, context: Context) -> dict:
        """Reads the package back from disk, so that what is shown is what was written."""
        from hierarchos.data.tokenizer import load_tokenizer
        from hierarchos.generation.generator import Generator, encode_prompt
        from hierarchos.generation.need import generation_need
        from hierarchos.generation.sampling import Sampling

        settings, loaded = context.config.generate, package_of(context)
        if loaded.model.task == "masked":
            context.progress.line("generate: this model is an encoder: it sees both sides of a token and writes no text")
            return {"new_tokens": 0, "stopped": "encoder", "prompt": settings.prompt or "", "text": ""}
        tokenizer = load_tokenizer(loaded.package.folder)
        prompt = settings.prompt if settings.prompt is not None else sample_prompt(context, tokenizer)
        sent = chat_text(prompt, tokenizer, context.config) if settings.chat else prompt
        need = generation_need(loaded.model, context.device, 1, len(encode_prompt(tokenizer, sent)), settings.max_new_tokens)
        require_memory(context, "generation", need, fewer_tokens)
        generator = Generator.from_loaded(loaded, context.device, tokenizer)
        sampling = Sampling(settings.temperature, settings.top_k, settings.top_p, context.config.run.seed)
        [result] = generator.generate([sent], settings.max_new_tokens, sampling)
        generator.close()
        context.progress.line(f"generate: {prompt}{result.text}")
        write_text(context.folder / "text.txt", f"{prompt}{result.text}\n")
        return {"new_tokens": len(result.ids), "stopped": result.stopped, "prompt": prompt, "text": result.text}


def fewer_tokens(limit: int) -> list[str]:
    """What helps where a package cannot generate."""
    return ["a lower generate.max_new_tokens or a shorter prompt needs fewer keys and values; the weights have to fit in any case"]


def chat_text(prompt: str, tokenizer: TextTokenizer, config: Config) -> str:
    """The prompt as one user message, up to where the assistant begins."""
    from hierarchos.data.encode_chat import ChatEncoder

    template = ChatEncoder(tokenizer, encode_options(config)).template
    return template.render([{"role": "user", "content": prompt}], add_generation_prompt=True)


def sample_prompt(context: Context, tokenizer: TextTokenizer) -> str:
    """The first few tokens of the held-out rows."""
    from hierarchos.data.token_file import TokenFile

    folder = context.artefacts["tokenize"].folder
    file = TokenFile.load(folder / (VALIDATION if (folder / VALIDATION).exists() else TRAIN))
    return tokenizer.decode(file.ids[:PROMPT_TOKENS])
