"""What is made of a trained or given model: a package, a score, a text."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.config.setting import setting


@dataclass(frozen=True)
class ExportConfig:
    """The Hugging Face package in the run directory's `model` folder."""

    path: str | None = setting(None, path=True)
    """Also copies the package to this folder, which must not exist yet."""

    max_shard_mb: int = setting(4096, at_least=1)
    """Largest size of one safetensors file, in MiB."""

    repo: str | None = setting(None)
    """For the stage `upload`: the repository on the Hub, "owner/name", that the package is put into."""

    private: bool = setting(True)
    """Whether a repository that `upload` makes is for you alone; one that is there stays as it is."""

    branch: str = setting("main")
    """The branch of the repository that `upload` writes to."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Loss and perplexity on the validation rows."""

    batch_size: int = setting(8, at_least=1)
    """Sequences computed at once."""

    max_batches: int | None = setting(None, at_least=1)
    """Stops after so many batches; null: all rows."""

    stride: int | None = setting(None, at_least=1)
    """Scores all rows as one long text, in windows of train.sequence_length that move by so many tokens; null: row by row."""

    choices: str | None = setting(None, path=True)
    """For the stage `choices`: a JSON-lines file of {"context": text, "choices": [texts], "answer": number from 0}."""


@dataclass(frozen=True)
class GenerateConfig:
    """Text written by the model. `prompt=TEXT` is short for `generate.prompt=TEXT`.

    Names and meanings are those of Transformers; null leaves the package's generation_config.json in force, and its defaults behind it."""

    prompt: str | None = setting(None, may_be_empty=True)
    """What the model continues; null: a line of the validation rows."""

    prompts: str | None = setting(None, path=True)
    """A text file with one prompt a line, all continued together, in place of a prompt."""

    chat: bool = setting(False)
    """Sends the prompt as one user message through the package's chat template."""

    max_new_tokens: int = setting(64, at_least=1)
    """Tokens written at most; an end token stops earlier."""

    min_new_tokens: int | None = setting(None, at_least=0)
    """No end token before so many."""

    do_sample: bool | None = setting(None)
    """Draws tokens at random; false: always the likeliest. null: the package's choice, true where a temperature is given."""

    temperature: float | None = setting(None, at_least=0)
    """0: always the likeliest token; 1: as the model says; higher: more surprising."""

    top_k: int | None = setting(None, at_least=0)
    """Draws among so many likeliest tokens; 0: all. 50 where nobody says otherwise."""

    top_p: float | None = setting(None, above=0, at_most=1)
    """Draws among the likeliest tokens that together have this probability."""

    min_p: float | None = setting(None, at_least=0, at_most=1)
    """Draws among tokens that have at least this share of the likeliest one's probability."""

    typical_p: float | None = setting(None, above=0, at_most=1)
    """Draws among the tokens whose information is nearest to the average, that together have this probability."""

    epsilon_cutoff: float | None = setting(None, at_least=0, below=1)
    """Draws among tokens of at least this probability."""

    eta_cutoff: float | None = setting(None, at_least=0, below=1)
    """The same, with a bound that falls where the model is unsure."""

    repetition_penalty: float | None = setting(None, above=0)
    """Above 1: tokens that were there become less likely."""

    no_repeat_ngram_size: int | None = setting(None, at_least=0)
    """No group of so many tokens twice."""

    stop_strings: list[str] = setting([])
    """Texts that end the text."""

    bad_words_ids: list[Any] = setting([])
    """Sequences of token ids that are never written: [[5], [3, 7]]."""

    suppress_tokens: list[int] = setting([])
    """Token ids that are never written."""

    num_beams: int | None = setting(None, at_least=1)
    """Beams of beam search; 1: none."""

    length_penalty: float | None = setting(None)
    """Beam search: above 0 prefers longer texts, below 0 shorter ones."""

    num_return_sequences: int | None = setting(None, at_least=1)
    """Texts for each prompt; needs sampling or beams."""

    penalty_alpha: float | None = setting(None, at_least=0, at_most=1)
    """Contrastive search among the top_k: how much repetition in meaning counts."""

    max_time: float | None = setting(None, above=0)
    """Seconds after which a text ends."""

    options: dict[str, Any] = setting({})
    """Further options of generation_config.json by name: generate.options.forced_eos_token_id=2."""
