"""Lets the model write: continues `generate.prompt`, or the beginning of the rows where none is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.files import write_text
from pipelines.memory import require_memory
from pipelines.stages.base import BaseStage
from pipelines.stages.packages import package_of
from pipelines.stages.tokenize import TRAIN, VALIDATION, encode_options

if TYPE_CHECKING:
    from hierarchos.data.tokenizer import TextTokenizer
    from hierarchos.generation.policy import Policy
    from pipelines.config import Config
    from pipelines.stage import Context

PROMPT_TOKENS = 8  # of the rows, where no prompt is given


class Generate(BaseStage):
    """Facts: `text`, what the model wrote after the prompt; `new_tokens`. Also written to text.txt."""

    name = "generate"
    groups = ("generate", "peft")
    inputs = ("acquire", "tokenize?", "export?")
    modules = ("hierarchos",)
    uses_device = True

    def check(self, config: Config) -> None:
        """Without rows there must be a prompt, and not two kinds of them; options are looked at where the package is at hand."""
        settings = config.generate
        if settings.prompts is not None:
            if settings.prompt is not None:
                raise UserError(
                    "generate.prompt and generate.prompts are both given", hint="one of them is enough", outcome="nothing was started"
                )
            read_prompts(settings.prompts)
        elif settings.prompt is None and "tokenize" not in config.pipeline.stages:
            raise UserError("generate.prompt has to be given", where="needed by generate", command='prompt="Once upon a time"')

        if config.model.source == "local" and (Path(config.model.path) / "config.json").is_file():
            policy_of(config, config.model.path)

    def run(self, context: Context) -> dict:
        """Reads the package back from disk, so that what is shown is what was written."""
        from hierarchos.data.tokenizer import load_tokenizer
        from hierarchos.generation.generator import Generator, encode_prompt
        from hierarchos.generation.need import generation_need

        settings, loaded = context.config.generate, package_of(context)
        if loaded.model.task == "masked":
            context.progress.line("generate: this model is an encoder: it sees both sides of a token and writes no text")
            return {"new_tokens": 0, "stopped": "encoder", "prompt": settings.prompt or "", "text": ""}
        tokenizer = load_tokenizer(loaded.package.folder)
        prompts = prompts_of(context, tokenizer)
        sent = [
            chat_text(prompt, tokenizer, context.config, number) if settings.chat else prompt for number, prompt in enumerate(prompts, 1)
        ]
        policy = policy_of(context.config, loaded.package.folder)
        longest = max(len(encode_prompt(tokenizer, text)) for text in sent)
        require_memory(
            context, "generation", generation_need(loaded.model, context.device, len(sent), max(longest, 1), policy), fewer_tokens
        )
        generator = Generator.from_loaded(loaded, context.device, tokenizer)
        results = generator.generate(sent, policy)
        generator.close()
        shown = [prompt for prompt in prompts for _ in range(policy.num_return_sequences)]
        lines = [f"{prompt}{result.text}" for prompt, result in zip(shown, results, strict=True)]
        for line in lines:
            context.progress.line(f"generate: {line}")
        write_text(context.folder / "text.txt", "\n".join(lines) + "\n")
        facts = {
            "new_tokens": sum(len(result.ids) for result in results),
            "stopped": results[0].stopped,
            "prompt": prompts[0],
            "text": results[0].text,
        }
        return facts if len(results) == 1 else facts | {"texts": [result.text for result in results]}


def policy_of(config: Config, folder) -> Policy:
    """The package's options, and over them what the configuration says. Temperature 0 is greedy, any other means sampling."""
    from dataclasses import asdict

    from hierarchos.generation.policy import package_policy, policy_from

    given = {name: value for name, value in asdict(config.generate).items() if value not in (None, [])}
    options = given.pop("options", {})
    for name in ("prompt", "prompts", "chat"):
        given.pop(name, None)
    temperature = given.get("temperature")
    if temperature == 0:
        given["do_sample"] = bool(given.pop("temperature"))
    elif temperature is not None:
        given.setdefault("do_sample", True)
    base = policy_from(options, "generate.options", package_policy(folder))
    return policy_from(given | {"seed": config.run.seed}, "configuration", base)


def prompts_of(context: Context, tokenizer: TextTokenizer) -> list[str]:
    """The prompts of the configuration, else the beginning of the rows."""
    settings = context.config.generate
    if settings.prompts is not None:
        return read_prompts(settings.prompts)
    return [settings.prompt if settings.prompt is not None else sample_prompt(context, tokenizer)]


def read_prompts(path: str) -> list[str]:
    """Lines of a UTF-8 file that are not blank."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path} is not there", where="generate.prompts", outcome="nothing was started") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: byte {error.start}", where="generate.prompts", outcome="nothing was started") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{path} has no line with a prompt", where="generate.prompts", outcome="nothing was started")
    return lines


def fewer_tokens(limit: int) -> list[str]:
    """What helps where a package cannot generate."""
    return ["a lower generate.max_new_tokens or a shorter prompt needs fewer keys and values; the weights have to fit in any case"]


def chat_text(prompt: str, tokenizer: TextTokenizer, config: Config, number: int = 1) -> str:
    """The prompt as one user message, up to where the assistant begins."""
    from hierarchos.data.encode_chat import ChatEncoder
    from hierarchos.data.rows import BadRow

    template = ChatEncoder(tokenizer, encode_options(config)).template
    try:
        return template.render([{"role": "user", "content": prompt}], add_generation_prompt=True)
    except BadRow as refused:
        raise UserError(refused.detail, where=f"prompt {number}", hint=refused.fixes, outcome="nothing was generated") from None


def sample_prompt(context: Context, tokenizer: TextTokenizer) -> str:
    """The first few tokens of the held-out rows."""
    from hierarchos.data.token_file import TokenFile

    folder = context.artefacts["tokenize"].folder
    file = TokenFile.load(folder / (VALIDATION if (folder / VALIDATION).exists() else TRAIN))
    return tokenizer.decode(file.ids[:PROMPT_TOKENS])
