"""Comparing two runs of the same settings: bit for bit on one device, within a tolerance on two."""
from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hierarchos.training.metrics import read_metrics, without_timing
from pipelines.run_directory import read_manifest

TOLERANCE = 1e-3          # of a loss, between two devices: orders of summation differ, and training carries that on
WORLD = ("data", "tokenizer", "model", "shaders", "code")
LOSSES = ("loss", "validation_loss", "best_loss")


@dataclass
class Comparison:
    """What is the same and what is not. same_device: whether bits may be asked for."""

    same_device: bool
    equal: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.different

    def lines(self) -> list[str]:
        """For people."""
        kind = "the same device and driver: bits are compared" if self.same_device else "another device or driver: losses are compared"
        told = [kind, *(f"  same       {text}" for text in self.equal), *(f"  different  {text}" for text in self.different)]
        return told + ([f"  changed since: {text}" for text in self.causes] if self.different else [])


def compare(first: Path, second: Path, tolerance: float = TOLERANCE) -> Comparison:
    """Compares the results of two run directories."""
    one, two = read_manifest(first), read_manifest(second)
    same = one.get("device") == two.get("device")
    found = Comparison(same, causes=causes(one, two))
    compare_steps(found, first, second, tolerance)
    for stage, facts in one.get("stages", {}).items():
        other = two.get("stages", {}).get(stage)
        if other is None:
            found.different.append(f"{stage}: it did not run")
        elif same and stage != "acquire":
            compare_digests(found, stage, facts, other)
        else:
            compare_losses(found, stage, facts.get("facts", {}), other.get("facts", {}), tolerance)
    return found


def causes(one: dict, two: dict) -> list[str]:
    """Hashes and versions that differ."""
    hashes = [f"{name} ({a[:12]} -> {b[:12]})" for name in WORLD
              if (a := one["hashes"].get(name)) and (b := two["hashes"].get(name)) and a != b]
    versions = [f"{name} {before} -> {two['versions'].get(name)}" for name, before in one["versions"].items()
                if two["versions"].get(name) != before]
    return hashes + versions


def compare_steps(found: Comparison, first: Path, second: Path, tolerance: float) -> None:
    """The lines of metrics.jsonl."""
    paths = first / "metrics.jsonl", second / "metrics.jsonl"
    if not all(path.exists() for path in paths):
        return
    a, b = (without_timing(read_metrics(path)) for path in paths)
    if found.same_device:
        place = next((row["step"] for row, other in zip(a, b, strict=False) if row != other), None)
        if a == b:
            found.equal.append(f"metrics.jsonl: {len(a)} lines, every bit")
        else:
            what = f"{len(a)} and {len(b)} lines" if place is None else f"from step {place}"
            found.different.append(f"metrics.jsonl: {what}")
        return
    pairs = [(row["loss"], other["loss"]) for row, other in zip(a, b, strict=False) if "loss" in row and "loss" in other]
    worst = max((relative(*pair) for pair in pairs), default=0.0)
    put(found, f"loss of {len(pairs)} steps, largest difference {worst:.2e} (allowed {tolerance:g})", worst <= tolerance)


def compare_digests(found: Comparison, stage: str, one: dict, two: dict) -> None:
    """What a stage made, by its hash; for stages without files by their facts."""
    if stage in ("train", "tokenize"):
        put(found, f"{stage}: {one['digest'][:12]} and {two['digest'][:12]}", one["digest"] == two["digest"])
        return
    a, b = ({name: value for name, value in facts["facts"].items() if not is_timing(name)} for facts in (one, two))
    differing = [name for name in a if a[name] != b.get(name)]
    put(found, f"{stage}: " + (", ".join(f"{name} {a[name]} -> {b.get(name)}" for name in differing) or "all figures"), not differing)


def is_timing(name: str) -> bool:
    """Facts that differ between two runs of the same computation."""
    return "second" in name or name in ("peak_bytes", "planned_bytes")


def compare_losses(found: Comparison, stage: str, one: dict, two: dict, tolerance: float) -> None:
    """The losses among a stage's facts."""
    for name in LOSSES:
        if isinstance(one.get(name), float) and isinstance(two.get(name), float):
            difference = relative(one[name], two[name])
            put(found, f"{stage}: {name.replace('_', ' ')} {one[name]:.6f} and {two[name]:.6f}, difference {difference:.2e}"
                       f" (allowed {tolerance:g})", difference <= tolerance)


def relative(a: float, b: float) -> float:
    """Difference relative to the larger of the two, at least 1."""
    return abs(a - b) / max(1.0, abs(a), abs(b))


def put(found: Comparison, text: str, holds: bool) -> None:
    (found.equal if holds else found.different).append(text)
