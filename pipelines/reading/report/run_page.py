"""The report of one run."""
from __future__ import annotations

import json
from pathlib import Path

from pipelines.hashing import flatten
from pipelines.progress import duration, shown
from pipelines.reading.report.page import page, section, table, texts, tiles
from pipelines.reading.report.svg import Curve, bars, line_chart
from pipelines.reading.runs import Run, as_yaml, settings_of
from pipelines.reading.tables import heading

KERNELS, LOG_LINES = 15, 40          # shown at most
MIB = 1 << 20


def run_page(run: Run) -> str:
    """Everything that a run's directory tells, as one page."""
    manifest = run.manifest
    device = manifest.get("device") or {}
    under = " · ".join(filter(None, [run.status, manifest.get("started"), device.get("name"), device.get("driver")]))
    rows = metrics_of(run.path)
    return page(f"{manifest['pipeline']} {manifest.get('id', run.path.name)}", under, [
        tiles(big_figures(run)), section("Warnings and notes", warnings_of(run)), section("Training", *curves(rows), side_by_side=True),
        section("Evaluation", table(["stage", "figure", "value"], evaluation(manifest))),
        section("Texts", texts(samples(manifest))),
        section("Time", stage_bars(manifest), *kernel_bars(run.path), side_by_side=True),
        section("Memory", memory_bars(manifest)),
        section("Settings that are not the defaults", table(["setting", "default", "this run"], changed(run))),
        section("Origin", table(["what", "value"], origin(manifest)))])


def metrics_of(path: Path) -> list[dict]:
    """Lines of metrics.jsonl, none where there is none."""
    from hierarchos.training.metrics import read_metrics

    return read_metrics(path / "metrics.jsonl") if (path / "metrics.jsonl").exists() else []


def curves(rows: list[dict]) -> list[str]:
    """Loss with validation, learning rate, gradient norm, speed; loss scale where there is one."""
    def curve(name: str, key: str, kind: str = "one", dots: bool = False) -> Curve:
        return Curve(name, [(row["step"], row[key]) for row in rows if key in row], kind, dots)

    loss = [curve("training", "loss"), curve("validation", "validation_loss", "two", True)]
    return [line_chart("Loss", [one for one in loss if one.points]), line_chart("Gradient norm", [curve("norm", "gradient_norm")]),
            line_chart("Learning rate", [curve("rate", "learning_rate")], log=False),
            line_chart("Tokens per second", [curve("speed", "tokens_per_second")], log=False),
            line_chart("Loss scale", [curve("scale", "loss_scale")])]


def big_figures(run: Run) -> list[tuple[str, str]]:
    """The figures of the top line."""
    found = {name: value for name, value in run.figures.items() if name not in ("seconds", "peak_bytes")}
    facts = run.manifest.get("stages", {}).get("train", {}).get("facts", {})
    counts = [(name, f"{facts[name]:,}") for name in ("parameters", "steps", "tokens") if isinstance(facts.get(name), int)]
    took = [("time", duration(run.figures["seconds"]))] if "seconds" in run.figures else []
    return [(heading(name), shown(value)) for name, value in found.items()] + counts + took


def warnings_of(run: Run) -> str:
    """What a reader must know before believing the rest: errors, lines of the logs, what was left out of the rows."""
    found = []
    if run.status != "done":
        error = run.manifest.get("error") or {}
        found.append(f"the run is {run.status}" + (f": {error.get('stage')}: {error.get('message')}" if error else ""))
    for name, stage in run.manifest.get("stages", {}).items():
        facts = stage.get("facts", {})
        account = facts.get("rows") if isinstance(facts.get("rows"), dict) else {}
        found += [f"{name}: {text}" for text in account.get("notices", [])]
        found += [f"{name}: {key.replace('_', ' ')}: {value}" for key in ("bad_rows", "truncated_rows", "truncated_tokens", "blank_lines")
                  if (value := account.get(key))]
        found += [f"{name}: its result is older than stages before it"] if stage.get("status") == "outdated" else []
    skipped = [row["skipped"] for row in metrics_of(run.path) if row.get("skipped")]
    found += [f"train: {skipped[-1]} steps were skipped because gradients overflowed"] if skipped else []
    return table(["warning"], [[text] for text in [*found, *logged(run.path)]])


def logged(path: Path) -> list[str]:
    """Warnings and errors in the logs of the stages, without tracebacks."""
    found = []
    for log in sorted(path.glob("stages/*/log")):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [f"{log.parent.name}: {line}" for line in lines if " WARNING " in line or " ERROR " in line]
    return found[:LOG_LINES]


def evaluation(manifest: dict) -> list[list[str]]:
    """Figures of the stages that measure."""
    return [[name, fact.replace("_", " "), shown(value)] for name in ("evaluate", "choices")
            for fact, value in manifest.get("stages", {}).get(name, {}).get("facts", {}).items() if isinstance(value, (int, float))]


def samples(manifest: dict) -> list[str]:
    """What the model wrote."""
    facts = manifest.get("stages", {}).get("generate", {}).get("facts", {})
    found = facts.get("texts") or ([facts["text"]] if facts.get("text") else [])
    first = str(facts.get("prompt") or "")
    return [f"{first}{text}" if number == 0 else text for number, text in enumerate(found)]


def stage_bars(manifest: dict) -> str:
    """Time by stage."""
    stages = manifest.get("stages", {}).items()
    return bars("Time by stage", [(name, stage.get("seconds", 0.0), f"{stage.get('seconds', 0.0):.2f} s" + (" (kept)" if stage.get("cached")
                else "")) for name, stage in stages])


def kernel_bars(path: Path) -> list[str]:
    """GPU time by kernel, where the run was profiled (run.profile=true)."""
    found = []
    for file in sorted(path.glob("stages/*/kernels.json")):
        for program, kernels in json.loads(file.read_text(encoding="utf-8")).items():
            total = sum(one["ms"] for one in kernels.values()) or 1.0
            largest = sorted(kernels.items(), key=lambda item: -item[1]["ms"])[:KERNELS]
            found.append(bars(f"GPU time of a {shape_of(program)}: {total:.3g} ms", [
                (f"{name} x{one['calls']}", one["ms"], f"{one['ms']:.3f} ms, {one['ms'] / total:.0%}") for name, one in largest]))
    return found


def shape_of(program: str) -> str:
    """A program as people call it: "step 4 64" is a step of 4 x 64 tokens."""
    name, *sizes = program.split()
    return f"{name} of {' x '.join(sizes)} tokens" if sizes else name


def memory_bars(manifest: dict) -> str:
    """What training needs, by kind, and what it took at its peak."""
    facts = manifest.get("stages", {}).get("train", {}).get("facts", {})
    rows = [(name, size / MIB, f"{size / MIB:.1f} MiB") for name, size in facts.get("memory", {}).items() if size]
    totals = [(name, facts[key] / MIB, f"{facts[key] / MIB:.1f} MiB") for name, key in (("planned in all", "planned_bytes"),
              ("taken at the peak", "peak_bytes")) if isinstance(facts.get(key), int)]
    return bars("Device memory of training", [*rows, *totals])


def changed(run: Run) -> list[list[str]]:
    """Settings that differ from the defaults."""
    from pipelines.config import Config
    from pipelines.settings.resolve import as_dict

    defaults = settings_of(as_dict(Config()))
    return [[key, as_yaml(defaults[key]) if key in defaults else "-", as_yaml(value)] for key, value in run.values.items()
            if key not in defaults or defaults[key] != value]


def origin(manifest: dict) -> list[list[str]]:
    """Where it comes from: command, code, versions, hashes."""
    git = manifest.get("git") or {}
    rows = [["command", " ".join(manifest.get("command", []))], ["seed", str(manifest.get("seed"))]]
    changed_files = f", {git['changed_files']} files changed" if git.get("changed_files") else ""
    rows += [["commit", git["commit"] + changed_files]] if git.get("commit") else []
    rows += [[f"hash: {name}", value] for name, value in manifest.get("hashes", {}).items() if value]
    versions = ", ".join(f"{name} {value}" for name, value in manifest.get("versions", {}).items())
    return [*rows, ["versions", versions], *([["resumed", str(len(manifest["resumed"]))]] if manifest.get("resumed") else []),
            *[[f"device: {name}", str(value)] for name, value in flatten(manifest.get("device") or {}).items() if name]]
