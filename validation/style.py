"""Fine-tunes an adapter on 200 short rows of a made-up style, then asks about things that no row names, greedily.

    python -m validation.style MODEL_FOLDER [--epochs 2] [--rate 1e-3] [--device D] [--to FILE] [KEY=VALUE ...]

Passes (status 0) when every answer begins and ends as the style does, and stops by itself. FILE: JSON of the answers. Without a
fine-tuning run of its own: `--adapter FOLDER` asks one that is there, `--adapter none` the model alone.
"""
from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from validation.command import exit_with
from validation.style_rows import BEGINS, ENDS, prompts, rows


def finetune(options, work: Path) -> Path:
    """Runs the pipeline; the folder of the adapter."""
    from pipelines.main import main as hierarchos

    (work / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    words = ["finetune", f"model.path={Path(options.model).resolve()}", "data=jsonl", f"data.path={work / 'rows.jsonl'}",
             f"train.epochs={options.epochs}", f"train.learning_rate={options.rate}", "train.batch_size=8", "train.accumulation=1",
             "train.sequence_length=96", "data.layout=pad", "data.pad_to=longest", "data.pad_multiple=8", "data.validation_fraction=0.0",
             "train.eval_every=0", "pipeline.stages=[acquire,tokenize,train,export]", f"run.dir={work / 'run'}", f"device={options.device}"]
    status = hierarchos([*words, *options.settings])
    if status:
        sys.exit(status)
    return work / "run/model"


def answers(model: str, adapter: Path | None, device: str) -> list:
    """Greedy answers to the held-out prompts."""
    from hierarchos.data.encode_chat import ChatEncoder
    from hierarchos.data.options import EncodeOptions
    from hierarchos.data.tokenizer import load_tokenizer
    from hierarchos.generation.generator import Generator
    from hierarchos.models.load import load_model
    from hierarchos.peft.load import load_adapters
    from hierarchos.vulkan import open_device

    loaded = load_model(model)
    loaded = load_adapters(loaded, {"default": adapter}) if adapter else loaded
    tokenizer = load_tokenizer(loaded.package.folder)
    template = ChatEncoder(tokenizer, EncodeOptions()).template
    sent = [template.render([{"role": "user", "content": prompt}], add_generation_prompt=True) for prompt in prompts()]
    opened = open_device(device)
    generator = Generator.from_loaded(loaded, opened, tokenizer)
    try:
        return generator.generate(sent, replace(generator.policy, max_new_tokens=48, do_sample=False))
    finally:
        generator.close()
        opened.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.style", description=__doc__.splitlines()[0])
    parser.add_argument("model", help="package folder of a chat model")
    parser.add_argument("settings", nargs="*", help="further settings of the run, such as peft.rank=16")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--to", metavar="FILE", help="where JSON goes")
    parser.add_argument("--adapter", help="folder of an adapter that was trained before, or none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        adapter = None if options.adapter == "none" else Path(options.adapter) if options.adapter else finetune(options, Path(name))
        print(f"asking {len(prompts())} questions about things that no row names", flush=True)
        found = answers(options.model, adapter, options.device)
    return report(found, options)


def report(found: list, options) -> int:
    """Each answer and whether it fits; the exit status."""
    good, kept = 0, []
    for prompt, result in zip(prompts(), found, strict=True):
        text = result.text.strip()
        fits = text.startswith(BEGINS) and text.endswith(ENDS) and result.stopped == "end"
        good += fits
        kept.append({"prompt": prompt, "text": text, "stopped": result.stopped, "fits": bool(fits)})
        print(f"{'ok ' if fits else 'NO '} {prompt}\n      {text}   [{result.stopped}]")
    print(f"{good} of {len(found)} answers show the style and stop by themselves")
    if options.to:
        told = {"model": options.model, "epochs": options.epochs, "rate": options.rate, "settings": options.settings, "answers": kept}
        Path(options.to).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return int(good < len(found))


if __name__ == "__main__":
    exit_with(main)
