"""Every recipe of configs/experiment/ runs: the command in its first line, for one step, on a package and rows made here."""
from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from hierarchos.resources import resource
from tests.bad_input.conftest import TEXTS, package
from tests.coherent_v9.small import WORDS as SMALL_COHERENT
from tests.pipelines.conftest import Place

__all__ = ["package"]
RECIPES = sorted(path.stem for path in Path(resource("configs"), "experiment").glob("*.yaml"))
COHERENT = ("assistant_recovery",)                         # wants a package of that family, which a step of training makes
ONE_STEP = ("train.steps=1", "train.batch_size=2", "train.accumulation=1", "train.sequence_length=48", "train.eval_batches=1",
            "train.schedule.warmup=0", "evaluate.max_batches=1", "evaluate.batch_size=2", "generate.max_new_tokens=2")
ROWS = {"instruction": [{"instruction": f"Double {n}", "input": "", "output": f"{n + n}"} for n in range(40)],
        "messages": [{"messages": [{"role": "user", "content": f"{n}?"}, {"role": "assistant", "content": f"{n}!"}]} for n in range(40)]}
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}<|endoftext|>{% endfor %}"


def text_of(recipe: str) -> str:
    return Path(resource("configs"), "experiment", f"{recipe}.yaml").read_text(encoding="utf-8")


def words_of(recipe: str) -> list[str]:
    """The command of a recipe's first line."""
    return shlex.split(text_of(recipe).partition("\n")[0].removeprefix("# hierarchos"))


def filled(word: str, place: Place, package: Path) -> str:
    """A word with what stands for something of one's own replaced."""
    for name, value in {"FOLDER": package, "ADAPTER": place.path / "tuned/model", "MERGED": place.path / "merged"}.items():
        word = word.replace(f"={name}", f"={value}")
    return word


def first_two(word: str) -> str:
    """A sweep over two values is enough for a test."""
    key, equals, values = word.partition("=")
    if "(" in values:                                       # an interval
        return word
    return key + equals + ",".join(values.split(",")[:2])


def write_rows(place: Place, recipe: str) -> None:
    kind = "messages" if "rows: messages" in text_of(recipe) else "instruction"
    place.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS[kind]))
    place.write("texts.txt", "\n\n".join(TEXTS * 3))
    place.write("prompts.txt", "1 and 1\n2 and 2\n")


def made_adapter(place: Place, package: Path) -> None:
    rows = ["data=jsonl", "data.path=rows.jsonl", "data.rows=instruction"]
    assert place.call("finetune", "peft=lora", f"model.path={package}", *rows, "run.dir=tuned", *ONE_STEP, "--until", "export").status == 0


def made_coherent(place: Place) -> Path:
    """A package of coherent-v9 after a step of training."""
    words = [*SMALL_COHERENT, "data=text", "data.path=texts.txt", "data.documents=paragraphs", "data.layout=pad", "run.dir=first"]
    assert place.call("train", *words, *ONE_STEP, "--until", "export").status == 0
    return place.path / "first/model"


def test_there_are_fifteen_and_more():
    assert len(RECIPES) >= 15


@pytest.mark.parametrize("recipe", RECIPES)
def test_first_line_is_the_command_and_the_expected_result_stands_beside_it(recipe):
    lines = text_of(recipe).splitlines()
    assert f"experiment={recipe}" in lines[0] and 28 <= len(lines) <= 60
    assert lines[2].startswith("# Expect: ")


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipe_runs_for_one_step(recipe, place, package, monkeypatch):
    write_rows(place, recipe)
    if recipe in COHERENT:
        package = made_coherent(place)
    words = [first_two(filled(word, place, package)) for word in words_of(recipe)]
    if "peft.path" in " ".join(words):
        made_adapter(place, package)
    if words[0] in ("train", "finetune"):
        words += ONE_STEP
    elif words[0] == "evaluate":
        words += ["train.sequence_length=16", "evaluate.batch_size=2", "evaluate.max_batches=1"]
    elif words[0] == "generate":
        words += ["generate.max_new_tokens=2"]
    if "override /data: corpus" in text_of(recipe) or words[0] == "train":
        words += [f"data.max_rows={200 if recipe == 'packing' else 1}", "tokenizer.vocab_size=300"]
    if "override /search" in text_of(recipe):
        pytest.importorskip("optuna")
        words += ["search.trials=2"]
    if "rows: messages" in text_of(recipe):
        words += [f"tokenizer.chat_template={CHAT}"]
    if recipe == "hub_lora":
        words = hub_words(place, package, monkeypatch, words)
        return run_apart(place, words)
    ended = place.call(*words)
    assert ended.status == 0, f"{' '.join(words)}\n{ended.out[-2000:]}\n{ended.err}"


def hub_words(place: Place, package: Path, monkeypatch, words: list[str]) -> list[str]:
    """The same words for a Hub of this machine, whose model has other names for its projections."""
    from tests.hub.server import HubServer

    hub = HubServer().__enter__()
    hub.add("models", "HuggingFaceTB/SmolLM2-135M", {path.name: path.read_bytes() for path in package.iterdir()})
    hub.add("datasets", "tatsu-lab/alpaca", {"train.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS["instruction"]).encode()})
    for name, value in {"HF_ENDPOINT": hub.url, "HF_HOME": str(place.path / "home"), "PYTHONPATH": os.getcwd()}.items():
        monkeypatch.setenv(name, value)
    return [*words, "peft.target_modules=all-linear", "data.validation_fraction=0.2"]


def run_apart(place: Place, words: list[str]) -> None:
    """In a process of its own, since the Hub's client reads its environment once."""
    process = place.start(*words)
    out, err = process.communicate()
    assert process.returncode == 0, out[-2000:] + err
