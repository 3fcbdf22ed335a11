"""Values that an adapter starts from, and what its start takes away from the base.

    default    A uniform in +-1/sqrt(in), B zero              gaussian   A normal with std 1/r, B zero
    olora      W = Q R: B = Q[:, :r], A = R[:r]               pissa      W = U S V^T: B = U_r sqrt(S_r/s), A = sqrt(S_r/s) V_r^T

The last two begin with a part of W, which the frozen base then lacks: W - s B A. Their adapters are saved as plain LoRA of twice the
rank, A and B beside their start with the other sign, so that they go on the base as it is.
"""
from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hierarchos.peft.adapted import Adapted
from hierarchos.peft.adapter import Adapter
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.select import Lora

TAKES_PART = ("olora", "pissa")
Matrices = tuple[np.ndarray, np.ndarray]


def takes_part(config: LoraConfig) -> bool:
    """Whether the adapter begins with a part of the base."""
    return config.init_lora_weights in TAKES_PART


@dataclass
class Start(Mapping):
    """All values of an adapted model by name: the base's from `base` (less what the adapter took), the adapter's first ones.

    parts: A and B that were taken from the base, where they are known already (a run that goes on)."""

    model: Adapted
    base: Mapping[str, np.ndarray]
    seed: int
    parts: dict[str, Matrices] = field(default_factory=dict)

    def __post_init__(self):
        self.adapter = self.model.adapter
        loras = self.adapter.plan.loras if self.adapter and takes_part(self.adapter.config) else {}
        self.taken = {f"{name}.weight": lora for name, lora in loras.items() if lora.site.kind == "linear"}

    def __getitem__(self, name: str) -> np.ndarray:
        leaf = self.adapter.leaf(name) if self.adapter else None
        if leaf is not None:
            return self._first(leaf)
        if ":" in name:
            raise KeyError(name)
        return self._residual(name) if name in self.taken else self.base[name]

    def __iter__(self) -> Iterator[str]:
        return (spec.name for spec in self.model.parameters if ":" not in spec.name or self.adapter.leaf(spec.name))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def part(self, lora: Lora) -> Matrices:
        """A and B taken from the weight of a module."""
        name = lora.site.name
        if name not in self.parts:
            self.parts[name] = PARTS[self.adapter.config.init_lora_weights](out_in(self.base[f"{name}.weight"], lora), lora)
        return self.parts[name]

    def _residual(self, name: str) -> np.ndarray:
        lora = self.taken[name]
        a, b = self.part(lora)
        left = out_in(self.base[name], lora) - np.float32(lora.scale) * (b @ a)
        return np.ascontiguousarray(left.T if lora.site.layout == "in_out" else left)

    def _first(self, leaf: str) -> np.ndarray:
        """The first value of an adapter's parameter."""
        module, _, kind = leaf.removesuffix(".weight").rpartition(".")
        plan = self.adapter.plan
        if kind == "trainable_tokens_delta":
            table = module.removesuffix(".token_adapter")
            return self.base[f"{table}.weight"][list(plan.tokens[table])]
        if kind == "lora_magnitude_vector":
            return self._norms(plan.loras[module])
        if kind.startswith("lora_"):
            return self._matrix(plan.loras[module], kind[-1], leaf)
        full = self.adapter.base_name(leaf)
        return self.base[full if full in self.base else self.model.family.embedding]      # a tied head starts as the embedding

    def _matrix(self, lora: Lora, which: str, leaf: str) -> np.ndarray:
        site = lora.site
        if f"{site.name}.weight" in self.taken:
            return self.part(lora)[which == "B"]
        shape = (lora.rank, site.inner) if which == "A" else (site.outer, lora.rank)
        generator = np.random.Generator(np.random.PCG64([self.seed, zlib.crc32(leaf.encode())]))
        if site.kind == "embedding":
            return np.zeros(shape, np.float32) if which == "A" else generator.standard_normal(shape, np.float32)
        if which == "B":
            return np.zeros(shape, np.float32)
        if self.adapter.config.init_lora_weights == "gaussian":
            return generator.standard_normal(shape, np.float32) / np.float32(lora.rank)
        return ((2 * generator.random(shape, np.float32) - 1) / np.float32(np.sqrt(site.inner))).astype(np.float32)

    def _norms(self, lora: Lora) -> np.ndarray:
        """Norms of the rows of W + s B A as training starts."""
        name = lora.site.name
        weight = self.base[f"{name}.weight"]           # whole again: what was taken is in B A
        return np.sqrt(np.square(out_in(weight, lora), dtype=np.float64).sum(1)).astype(np.float32)


def out_in(weight: np.ndarray, lora: Lora) -> np.ndarray:
    """The weight of a module as [out, in]."""
    return weight.T if lora.site.layout == "in_out" else weight


def pissa(weight: np.ndarray, lora: Lora) -> Matrices:
    """The largest singular values, shared between A and B."""
    u, s, v = np.linalg.svd(weight, full_matrices=False)
    root = np.sqrt(s[: lora.rank] / np.float32(lora.scale))
    return np.ascontiguousarray(root[:, None] * v[: lora.rank]), np.ascontiguousarray(u[:, : lora.rank] * root)


def olora(weight: np.ndarray, lora: Lora) -> Matrices:
    """The first columns of Q and rows of R."""
    q, r = np.linalg.qr(weight)
    return np.ascontiguousarray(r[: lora.rank]), np.ascontiguousarray(q[:, : lora.rank])


PARTS = {"pissa": pissa, "olora": olora}


def as_plain(adapter: Adapter, values: Mapping[str, np.ndarray], parts: Mapping[str, Matrices]) -> tuple[LoraConfig, dict[str, np.ndarray]]:
    """An adapter that began with a part of the base as one of twice the rank on the base as it is. values: by leaf."""
    config, changed = adapter.config, dict(values)
    for name, (a, b) in parts.items():
        changed[f"{name}.lora_A.weight"] = np.concatenate([values[f"{name}.lora_A.weight"], a])
        changed[f"{name}.lora_B.weight"] = np.concatenate([values[f"{name}.lora_B.weight"], -b], 1)
    grown = 2**0.5 if config.use_rslora else 2         # the factor on B A stays as it is
    ranks = {key: 2 * rank for key, rank in config.rank_pattern.items()}
    alphas = {key: alpha * grown for key, alpha in config.alpha_pattern.items()}
    return replace(config, r=2 * config.r, lora_alpha=config.lora_alpha * grown, rank_pattern=ranks, alpha_pattern=alphas,
                   init_lora_weights=True), changed


