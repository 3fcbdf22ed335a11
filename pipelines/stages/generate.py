"""Lets the model write: continues `generate.prompt`, or the beginning of the rows where none is given."""
from __future__ import annotations

from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.files import write_text
from pipelines.stages.base import BaseStage
from pipelines.stages.packages import package_of
from pipelines.stages.tokenize import TRAIN, VALIDATION

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from pipelines.config import Config
    from pipelines.stage import Context

PROMPT_TOKENS = 8          # of the rows, where no prompt is given


class Generate(BaseStage):
    """Facts: `text`, what the model wrote after the prompt; `new_tokens`. Also written to text.txt."""

    name = "generate"
    groups = ("generate",)
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
        from hierarchos.generation import generate

        loaded, settings = package_of(context), context.config.generate
        tokenizer = load_tokenizer(loaded.package.folder)
        prompt = settings.prompt if settings.prompt is not None else sample_prompt(context, tokenizer)
        result = generate(loaded, tokenizer, prompt, context.device, max_new_tokens=settings.max_new_tokens,
                          temperature=settings.temperature, top_k=settings.top_k, top_p=settings.top_p, chat=settings.chat,
                          seed=context.config.run.seed)
        context.progress.line(f"generate: {prompt}{result.text}")
        write_text(context.folder / "text.txt", f"{prompt}{result.text}\n")
        return {"new_tokens": len(result.ids), "prompt": prompt, "text": result.text}


def sample_prompt(context: Context, tokenizer: TextTokenizer) -> str:
    """The first few tokens of the held-out rows."""
    from hierarchos.data.token_file import TokenFile

    folder = context.artefacts["tokenize"].folder
    file = TokenFile.load(folder / (VALIDATION if (folder / VALIDATION).exists() else TRAIN))
    return tokenizer.decode(file.ids[:PROMPT_TOKENS])
