"""usage: hierarchos bench [NAMES] [--json] [--profile] [device=SELECT] [precision=fp32|bf16|fp16]
       hierarchos bench lora | lora-smollm2-135m | lora-tinyllama-1.1b  [model.path=FOLDER]
       hierarchos bench coherent_v9

Measures training steps and kernels, with PyTorch beside them in the same run, where that is installed.
lora: fine-tuning beside PEFT on the processor in FP32 and BF16; coherent_v9: a step of that model; both alone.
"""
from __future__ import annotations

from hierarchos.errors import UserError
from pipelines.bench import coherent, lora
from pipelines.commands.words import take
from pipelines.config.device import DeviceConfig
from pipelines.config.precision import PrecisionConfig
from pipelines.devices import find_device
from pipelines.precision import check_precision

SETTINGS = ("device", "precision", "model.path")


def run(words: list[str]) -> int:
    """Prints a table, or JSON."""
    settings = {name: [word.partition("=")[2] for word in words if word.startswith(f"{name}=")] for name in SETTINGS}
    others = [word for word in words if not word.startswith(tuple(f"{name}=" for name in SETTINGS))]
    for name in (name for name, given in settings.items() if "" in given):
        raise UserError(f"{name}= has no value", where="command line", hint="leave it out for the default")
    flags, names = take(others, "--json", "--profile", names=True)
    info = find_device(DeviceConfig(select=settings["device"][-1] if settings["device"] else "auto"))
    precision = PrecisionConfig(compute=settings["precision"][-1] if settings["precision"] else "fp32")
    if precision.compute not in ("fp32", "bf16", "fp16"):
        raise UserError(f"precision={precision.compute} is not there", where="command line", hint="there is: bf16, fp16, fp32")
    if coherent.NAME in names:
        refuse_beside(coherent.NAME, names)
        refuse_formats(precision.compute)
        return coherent.bench(coherent.Sizes(profile="--profile" in flags), str(info.index), "--json" in flags)
    check_precision(precision, info)
    package = settings["model.path"][-1] if settings["model.path"] else None
    if found := [name for name in names if name in lora.SIZES]:
        refuse_beside(found[0], names)
        refuse_words(found[0], flags, package)
        return lora.bench(lora.SIZES[found[0]], str(info.index), "--json" in flags, precision.compute, package)
    if package is not None:
        raise UserError("model.path= is for lora only", where="command line", command=f"hierarchos bench lora model.path={package}")
    from pipelines.bench.command import bench

    return bench(names, "--json" in flags, str(info.index), profile="--profile" in flags, compute=precision.compute)


def refuse_beside(name: str, names: list[str]) -> None:
    """Raises UserError where something that is measured alone has company."""
    if len(names) > 1:
        raise UserError(f"{name} is measured alone, not beside {' '.join(other for other in names if other != name)}",
                        where="command line", command=f"hierarchos bench {name}")


def refuse_formats(compute: str) -> None:
    """Raises UserError for a number format that coherent-v9 has not."""
    if compute != "fp32":
        raise UserError(f"precision={compute} is not there for {coherent.NAME}: this model is computed in fp32", where="command line",
                        command=f"hierarchos bench {coherent.NAME}")


def refuse_words(name: str, flags: set[str], package: str | None) -> None:
    """Raises UserError for what the bench of LoRA does not read."""
    if "--profile" in flags:
        raise UserError(f"--profile is not there for {name}", where="command line", command="hierarchos finetune ... run.profile=true")
    if package is not None and name != "lora":
        raise UserError(f"{name} is a shape with random weights; it takes no model.path=", where="command line",
                        command=f"hierarchos bench lora model.path={package}")
