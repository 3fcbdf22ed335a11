"""An adapter put into its base, or taken out: one tensor after the other, written aside, computed with, and only then in its place."""
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hierarchos.errors import UserError
from hierarchos.hub.write import SHARD_BYTES, written_aside
from hierarchos.models.family import Model
from hierarchos.models.load import Loaded, load_model, save_model
from hierarchos.models.registry import resolve
from hierarchos.peft.compute import logits_of_package
from hierarchos.peft.files import TENSORS
from hierarchos.peft.load import AdaptedLoaded, load_adapters
from hierarchos.peft.select import Lora

if TYPE_CHECKING:
    from hierarchos.vulkan import Device

RECORD = "merged_adapter.json"      # in a merged package: which adapter is in it
TOLERANCE = 1e-3                    # of the largest logit: what sums in another order may differ by, with room
PROMPT = 16                         # tokens of the comparison


@dataclass(frozen=True)
class Merged:
    """What was written. difference: largest one of the logits, before and after; largest: logit. changed: parameters."""

    folder: Path
    changed: int
    difference: float
    largest: float
    tied: bool


def merge_adapter(base: str | Path, adapter: str | Path, target: str | Path, *, device: Device | None = None,
                  shard_bytes: int = SHARD_BYTES) -> Merged:
    """Writes base + adapter as a package. device: where the logits are compared; None: with NumPy.

    Raises UserError, and leaves nothing behind, when the written package does not compute what base and adapter do."""
    opened = load_adapters(load_model(base), {"default": adapter})
    values = MergedValues(opened)
    model = values.model
    record = {"adapter_sha256": file_hash(Path(adapter) / TENSORS), "changed": sorted(values.changed)}
    return _publish(opened, model, values, target, record, device, shard_bytes, opened, len(values.changed))


def unmerge_adapter(merged: str | Path, adapter: str | Path, target: str | Path, *, device: Device | None = None,
                    shard_bytes: int = SHARD_BYTES) -> Merged:
    """Writes a merged package less its adapter. Only what was added can be taken away: LoRA and rsLoRA on linear layers.

    Raises UserError for adapters that replaced or turned weights, and where another adapter was merged."""
    loaded = load_model(merged)
    _check_record(loaded, Path(adapter))
    opened = load_adapters(loaded, {"default": adapter}, check_base=False)
    _check_additive(opened)
    values = MergedValues(opened, sign=-1.0)
    without = {RECORD: None}
    return _publish(opened, opened.base.model, values, target, without, device, shard_bytes, None, len(values.changed))


def _publish(opened: AdaptedLoaded, model: Model, values: MergedValues, target, record, device, shard_bytes, reference, changed) -> Merged:
    target = Path(target)
    if target.exists():
        raise UserError(f"{target} is there already", where="export.path", hint="give a folder that does not exist yet")
    files = {RECORD: json.dumps(record, indent=1) + "\n"} if reference else {}
    with written_aside(target) as aside:
        save_model(aside, model, values, companions=opened.base.package.folder, files=files, shard_bytes=shard_bytes)
        difference, largest = _compared(opened, load_model(aside), device, reference is not None)
    return Merged(target, changed, difference, largest, model.config.tied)


def _compared(opened: AdaptedLoaded, written: Loaded, device: Device | None, merging: bool) -> tuple[float, float]:
    """Largest difference of the logits and largest logit. When taking out: written + adapter against the merged package."""
    ids = np.random.default_rng(0).integers(0, opened.model.config.vocab_size, (1, PROMPT)).astype(np.int32)
    if merging:
        first, second = logits_of_package(opened, ids, device), logits_of_package(written, ids, device)
    else:
        again = load_adapters(written, {"default": opened.files["default"].folder}, check_base=False)
        first, second = logits_of_package(opened.base, ids, device), logits_of_package(again, ids, device)
    difference, largest = float(np.abs(first - second).max()), float(np.abs(first).max())
    if not difference <= TOLERANCE * max(1.0, largest):
        raise UserError(f"the written package computes something else: logits differ by {difference:.3g} (the largest is {largest:.3g})",
                        where=str(opened.base.package.folder), hint="please report this", outcome="nothing was left behind")
    return difference, largest


class MergedValues(Mapping):
    """Parameters of the merged model by name, each computed when it is asked for. sign: -1 takes the adapter out."""

    def __init__(self, opened: AdaptedLoaded, sign: float = 1.0):
        self.opened, self.sign, self.adapter = opened, sign, opened.model.adapter
        self.family = opened.model.family
        self.model = self._model()
        self.names = [spec.name for spec in self.model.parameters]

    def _model(self) -> Model:
        """The base's model; a tied head that the adapter made another than the embedding is written on its own."""
        base = self.opened.base.model
        if not base.config.tied or self.sign < 0 or np.array_equal(self[self.family.embedding], self._head()):
            return base
        return resolve({**base.raw, "tie_word_embeddings": False}, str(self.opened.base.package.folder / "config.json"))

    @property
    def changed(self) -> list[str]:
        """Parameters that are not the base's."""
        plan = self.adapter.plan
        return [name for name in self.names if self._module(name) in {*plan.loras, *plan.saved, *plan.tokens} or name in plan.biases]

    def _module(self, name: str) -> str:
        return name.rpartition(".")[0]

    def _own(self, leaf: str) -> np.ndarray:
        return self.opened.value(self.adapter.parameter(leaf))

    def __getitem__(self, name: str) -> np.ndarray:
        if name == self.family.head and self.opened.base.model.config.tied:
            return self._head()
        return self._changed(name, name)

    def _head(self) -> np.ndarray:
        """The head of a tied base: a saved one, or the embedding with the head's matrices and with trained rows."""
        head, embedding = self.family.head, self.family.embedding
        plan, table = self.adapter.plan, self._module(embedding)
        if self._module(head) in plan.saved:
            return self._own(head)
        if table in plan.saved and self.adapter.config.ensure_weight_tying:
            return self._own(embedding)
        value = self._with_rows(self.opened.base.value(embedding), table)
        lora = plan.loras.get(self._module(head))
        return value if lora is None else self._added(value, lora)

    def _changed(self, name: str, source: str) -> np.ndarray:
        module, plan = self._module(name), self.adapter.plan
        if self.adapter.replaces(name):
            return self._own(self.adapter.leaf_of(name))
        value = self.opened._base_value(source)
        if not name.endswith(".weight"):
            return value
        value = self._with_rows(value, module)
        return self._added(value, plan.loras[module]) if module in plan.loras else value

    def _with_rows(self, value: np.ndarray, module: str) -> np.ndarray:
        """A table with the trained rows."""
        if module not in self.adapter.plan.tokens:
            return value
        value = value.copy()
        value[list(self.adapter.plan.tokens[module])] = self._own(f"{module}.token_adapter.trainable_tokens_delta")
        return value

    def _added(self, value: np.ndarray, lora: Lora) -> np.ndarray:
        """W + s B A, or with DoRA m (W + s B A) / its row norms; sums in float64, rounded once."""
        kind = "lora_embedding_{}" if lora.site.kind == "embedding" else "lora_{}.weight"
        a, b = (self._own(f"{lora.site.name}.{kind.format(which)}").astype(np.float64) for which in "AB")
        turned = lora.site.kind == "embedding" or lora.site.layout == "in_out"
        whole = (value.T if turned else value) + self.sign * lora.scale * (b @ a)
        if lora.dora:
            norms = np.sqrt(np.square(whole).sum(1, keepdims=True))
            whole = self._own(f"{lora.site.name}.lora_magnitude_vector")[:, None] / norms * whole
        return np.ascontiguousarray(whole.T if turned else whole, np.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _check_additive(opened: AdaptedLoaded) -> None:
    config, plan = opened.model.adapter.config, opened.model.adapter.plan
    what = {"DoRA turned weights": config.use_dora, "it replaced whole modules": bool(plan.saved), "it replaced rows": bool(plan.tokens),
            "it replaced biases": bool(plan.biases),
            f"its start ({config.init_lora_weights}) changed the base": config.init_lora_weights in ("pissa", "olora")}
    if reason := next((text for text, holds in what.items() if holds), None):
        raise UserError(f"this adapter cannot be taken out: {reason}", where=str(opened.files["default"].folder),
                        hint="keep the base: only sums can be undone", outcome="nothing was written")


def _check_record(loaded: Loaded, adapter: Path) -> None:
    """A package that says which adapter is in it must have this one."""
    path = loaded.package.folder / RECORD
    if not path.is_file():
        return
    told = json.loads(path.read_text(encoding="utf-8")).get("adapter_sha256")
    if told and (adapter / TENSORS).is_file() and told != file_hash(adapter / TENSORS):
        raise UserError("another adapter was merged into this package", where=str(path), hint=f"its tensors have SHA-256 {told[:12]}",
                        outcome="nothing was written")


def file_hash(path: Path) -> str:
    """SHA-256 of a file; "" where it is not there."""
    from hashlib import file_digest

    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
