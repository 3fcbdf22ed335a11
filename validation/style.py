"""Fine-tunes an adapter on 200 short rows of a made-up style, then asks about things that no row names, greedily.

    python -m validation.style MODEL_FOLDER [--epochs 2] [--rate 1e-3] [--device D] [KEY=VALUE ...]

Passes (status 0) when every answer begins and ends as the style does, and stops by itself.
"""
from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        adapter = finetune(options, Path(name))
        found = answers(options.model, adapter, options.device)
    good = 0
    for prompt, result in zip(prompts(), found, strict=True):
        text = result.text.strip()
        fits = text.startswith(BEGINS) and text.endswith(ENDS) and result.stopped == "end"
        good += fits
        print(f"{'ok ' if fits else 'NO '} {prompt}\n      {text}   [{result.stopped}]")
    print(f"{good} of {len(found)} answers show the style and stop by themselves")
    return int(good < len(found))


if __name__ == "__main__":
    sys.exit(main())
