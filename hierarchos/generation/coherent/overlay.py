"""The durable overlay: the sum of all accepted writes to the fast memory, in a file, added to the learned slots at the next start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.contract import check_contract, contract_of, digest_of

if TYPE_CHECKING:
    import numpy as np

FORMAT, TENSOR, SLOTS = "hierarchos-ltm-overlay-v1", "ltm.overlay", "ltm.vals"
UNTOUCHED = "the file is unchanged, the conversation was not started"


class Overlay:
    """values f32 [S,V]; bound to the contract and to the weights that it was learned over. Written after each `add`."""

    def __init__(self, path: Path, cfg: Config, weights: str):
        import numpy as np

        self.path, self.cfg, self.weights = path, cfg, weights
        self.values = read(path, cfg, weights) if path.exists() else np.zeros((cfg.ltm_slots, cfg.ltm_val_dim), np.float32)

    def over(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Learned tensors with the overlay as it is now added to their slots."""
        return {**values, SLOTS: values[SLOTS] + self.values}

    def add(self, change: np.ndarray) -> None:
        """One accepted write. Raises UserError where it cannot be written; the file is then as it was."""
        from hierarchos.hub.safetensors_file import write_tensors

        self.values = self.values + change
        partial = self.path.with_name(f".{self.path.name}.partial")
        metadata = {"format": FORMAT, "architecture_contract_sha256": digest_of(contract_of(self.cfg)), "weights": self.weights}
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(partial, {TENSOR: self.values}, metadata)
            partial.replace(self.path)
        except OSError as error:
            raise UserError(f"what was learned cannot be written: {error.strerror}", where=str(self.path),
                            outcome="it lasts until the conversation ends") from error


def read(path: Path, cfg: Config, weights: str) -> np.ndarray:
    """The overlay of a file; refuses that of another model or other weights, and one that is not finite."""
    import numpy as np

    from hierarchos.hub.safetensors_file import TensorFile

    try:
        file = TensorFile(path)
        known = file.metadata.get("format")
    except UserError:
        known = None
    if known != FORMAT:
        raise UserError(f"this is no overlay of the fast memory: its format is {known!r}, not {FORMAT!r}", where=str(path),
                        outcome=UNTOUCHED)
    check_contract(contract_of(cfg), None, file.metadata.get("architecture_contract_sha256"), str(path), UNTOUCHED)
    if file.metadata.get("weights") != weights:
        raise UserError("the overlay was learned over other weights", where=str(path), outcome=UNTOUCHED,
                        hint="give the package that it was learned with, or another coherent.ltm_overlay_file")
    values = file.read(TENSOR) if TENSOR in file.entries else np.zeros(0)
    if values.shape != (cfg.ltm_slots, cfg.ltm_val_dim) or not np.isfinite(values).all():
        raise UserError("the overlay is damaged: its values have another shape or are not finite", where=str(path), outcome=UNTOUCHED)
    return values
