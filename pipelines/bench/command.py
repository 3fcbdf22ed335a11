"""`hierarchos bench`: times workloads here and, where PyTorch is installed, in PyTorch in the same run; prints the ratios."""
from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from hierarchos.errors import UserError, nearest
from pipelines.bench.peers import missing, why
from pipelines.bench.workloads import DEFAULT, WORKLOADS

MODULE = "validation.bench_torch"


def bench(names: list[str], as_json: bool = False, select: str = "auto", budget: float = 2.0, profile: bool = False,
          compute: str = "fp32") -> int:
    """Prints a table (or a JSON list) of the workloads `names`; none: the default ones. profile: time by kernel as well.

    compute: "fp32", "bf16" or "fp16", without a loss scale. Returns the exit status."""
    from hierarchos.vulkan import open_device
    from pipelines.bench import coherent, lora
    from pipelines.bench.profile import kernel_table, show
    from pipelines.bench.timing import time_workload

    known = [*WORKLOADS, *lora.SIZES, coherent.NAME]
    for name in names:
        if name not in WORKLOADS:
            raise UserError(f"{name} is not a workload", where="command line", nearest=nearest(name, known),
                            hint="workloads: " + ", ".join(known))
    rows, told = [], None
    with open_device(select) as device:
        device.autotune = not device.info.software  # as training does
        facts = {"device": device.info.name, "driver": device.info.driver}
        for name in names or DEFAULT:
            row = asdict(time_workload(WORKLOADS[name], device, budget, compute=compute))
            row |= facts | {"precision": compute} | pytorch(name, budget, device.info.kind, compute)
            rows.append(row)
            if not as_json:
                reason = row.get("missing")
                print(line(row, len(rows) == 1) + (f"\n  {reason}" if reason not in (None, told) else ""), flush=True)
                told = reason
            if profile:
                row["kernels"] = kernel_table(WORKLOADS[name], device, compute=compute)
                if not as_json:
                    print(show(row["kernels"]), flush=True)
    if as_json:
        print(json.dumps(rows, indent=1))
    return 0


def pytorch(name: str, budget: float, kind: str, compute: str = "fp32") -> dict:
    """The same workload in PyTorch (under autocast for a half format), in a process of its own: on CUDA beside a GPU, else on the CPU;
    `missing`: why there is none, in words."""
    if (reason := missing(MODULE, "torch")) is not None:
        return {"missing": reason}
    command = [sys.executable, "-m", MODULE, name, str(budget), "--precision", compute,
               "--device", "cpu" if kind == "software" else "cuda"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"missing": f"PyTorch gave no figures: {why(done)}"}
    other = json.loads(done.stdout.splitlines()[-1])
    return {"pytorch_milliseconds": other["milliseconds"], "pytorch": other["torch"], "pytorch_device": command[-1],
            "pytorch_peak_bytes": other["peak_bytes"]}


def line(row: dict, first: bool) -> str:
    """A row of the table, after its heading when it is the first."""
    other, theirs = row.get("pytorch_milliseconds"), row.get("pytorch_peak_bytes")
    cells = [f"{row['name']:<22}", f"{row['milliseconds']:>9.3f} ms", f"{row['median']:>9.3f} ms",
             f"{other:>9.3f} ms" if other else "           -", f"{row['milliseconds'] / other:>7.2f}" if other else "      -",
             f"{row['dispatches']:>10}", f"{row['host_milliseconds']:>8.3f} ms", f"{row['setup_seconds']:>7.2f} s",
             f"{row['peak_bytes'] / 2**20:>9.0f} MiB", f"{theirs / 2**20:>9.0f} MiB" if theirs else "            -"]
    heading = f"{row['device']}, {row['driver']}\n" + "  ".join(
        ("workload              ", "       least", "      median", "     PyTorch", "  ratio", "dispatches", "       host", "  set-up",
         "         peak", "   in PyTorch"))
    return (heading + "\n" if first else "") + "  ".join(cells)
