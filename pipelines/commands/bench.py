"""usage: hierarchos bench [NAMES] [--json] [--profile] [device=SELECT] [precision=fp32|bf16|fp16]

Measures training steps and kernels (coherent_v9, alone: a step of that model);
with PyTorch beside them, in the same run, where that is installed.
"""
from __future__ import annotations

from hierarchos.errors import UserError
from pipelines.bench import coherent
from pipelines.commands.words import take
from pipelines.config.device import DeviceConfig
from pipelines.config.precision import PrecisionConfig
from pipelines.devices import find_device
from pipelines.precision import check_precision


def run(words: list[str]) -> int:
    """Prints a table, or JSON."""
    settings = {name: [word.partition("=")[2] for word in words if word.startswith(f"{name}=")] for name in ("device", "precision")}
    others = [word for word in words if not word.startswith(("device=", "precision="))]
    flags, names = take(others, "--json", "--profile", names=True)
    info = find_device(DeviceConfig(select=settings["device"][-1] if settings["device"] else "auto"))
    precision = PrecisionConfig(compute=settings["precision"][-1] if settings["precision"] else "fp32")
    if precision.compute not in ("fp32", "bf16", "fp16"):
        raise UserError(f"precision={precision.compute} is not there", where="command line", hint="there is: bf16, fp16, fp32")
    if coherent.NAME in names:
        refuse_beside(names, precision.compute)
        return coherent.bench(coherent.Sizes(profile="--profile" in flags), str(info.index), "--json" in flags)
    check_precision(precision, info)
    from pipelines.bench.command import bench

    return bench(names, "--json" in flags, str(info.index), profile="--profile" in flags, compute=precision.compute)


def refuse_beside(names: list[str], compute: str) -> None:
    """Raises UserError for what the bench of coherent-v9 does not read."""
    if len(names) > 1:
        raise UserError(f"{coherent.NAME} is measured alone, not beside {' '.join(name for name in names if name != coherent.NAME)}",
                        where="command line", command=f"hierarchos bench {coherent.NAME}")
    if compute != "fp32":
        raise UserError(f"precision={compute} is not there for {coherent.NAME}: this model is computed in fp32", where="command line",
                        command=f"hierarchos bench {coherent.NAME}")
