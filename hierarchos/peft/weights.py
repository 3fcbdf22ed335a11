"""Weights of a model with an adapter: frozen base parameters, and the adapter's own under `ADAPTER:PEFT NAME`."""
from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from hierarchos.graph import functions as F
from hierarchos.graph.op import current_graph
from hierarchos.graph.ops.unpack import unpack
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.batch import Batch
from hierarchos.nn.dropout import dropout
from hierarchos.nn.stored import FLOATS, place_of
from hierarchos.nn.weights import ZEROS, Constant, Initial, Normal, ParameterSpec, Weights
from hierarchos.peft import layers
from hierarchos.peft.adapter import Adapter
from hierarchos.peft.select import Lora


@dataclass(eq=False)
class AdapterWeights(Weights):
    """`adapter`: the active one, None when adapters are disabled. batch: whose seed decides the adapter's dropout. stored: format
    in which frozen weights of linear layers lie on the device."""

    adapter: Adapter | None = None
    batch: Batch | None = None
    stored: str = FLOATS

    # ---- what the adapter trains

    def own(self, leaf: str, shape: tuple[int, ...], initial: Initial, decay: bool = True) -> Tensor:
        """A parameter of the adapter; leaf: its name in PEFT's file, without the prefix."""
        rate = self.adapter.rates.of(leaf, shape)
        return self.declare(ParameterSpec(self.adapter.parameter(leaf), tuple(shape), initial, decay, rate=rate))

    def parameter(self, leaf: str, shape: tuple[int, ...], initial: Initial | None = None, decay: bool | None = None,
                  used: bool = True) -> Tensor:
        """The adapter's own copy where it trains the module as a whole or its bias, else the frozen parameter of the base."""
        decay = len(shape) > 1 if decay is None else decay
        adapter, full, start = self.adapter, self.name(leaf), initial or self._normal(None)
        if adapter is not None and adapter.replaces(full):
            rate = adapter.rates.of(full, shape)
            own = ParameterSpec(adapter.parameter(adapter.leaf_of(full)), tuple(shape), start, decay, used, rate=rate)
            return self.declare(own, initial is not None)
        return self.declare(ParameterSpec(full, tuple(shape), start, decay, used, trained=False), initial is not None)

    def frozen(self, full: str, shape: tuple[int, ...]) -> Tensor:
        """A parameter of the base by its full name, whatever the adapter has."""
        return self.declare(ParameterSpec(full, tuple(shape), self._normal(None), len(shape) > 1, trained=False), False)

    def matrices(self, lora: Lora) -> tuple[Tensor, Tensor]:
        """A and B of a module. Their distributions are what they start from where nothing else is asked for (see `start.py`)."""
        name = lora.site.name
        if lora.site.kind == "embedding":
            return (self.own(f"{name}.lora_embedding_A", (lora.rank, lora.site.inner), ZEROS),
                    self.own(f"{name}.lora_embedding_B", (lora.site.outer, lora.rank), Normal(1.0)))
        return (self.own(f"{name}.lora_A.weight", (lora.rank, lora.site.inner), Normal(1 / lora.rank)),
                self.own(f"{name}.lora_B.weight", (lora.site.outer, lora.rank), ZEROS))

    def declare(self, spec: ParameterSpec, initial: bool = True) -> Tensor:
        """As `Weights.declare`; of a packed parameter the words."""
        if spec.stored == FLOATS:
            return super().declare(spec, initial)
        if spec.name not in self.table:
            place = place_of(spec)
            self.table[spec.name] = (spec, F.state(spec.name, place.shape, place.dtype))
        return self.table[spec.name][1]

    def packs(self, full: str) -> bool:
        """Whether a parameter lies packed: frozen weights of linear layers where that is asked for."""
        return self.stored != FLOATS and not (self.adapter and self.adapter.replaces(full))

    def unpacked(self, leaf: str, shape: tuple[int, ...], std) -> Tensor:
        """The floats of a packed weight; made anew at each use."""
        spec = ParameterSpec(self.name(f"{leaf}.weight"), tuple(shape), self._normal(std), True, trained=False, stored=self.stored)
        return unpack(self.declare(spec), self.stored, shape)

    def weight(self, leaf: str, shape: tuple[int, ...], std) -> Tensor:
        """The weight of a linear layer as floats."""
        packed = self.packs(self.name(f"{leaf}.weight"))
        return self.unpacked(leaf, shape, std) if packed else self.parameter(f"{leaf}.weight", shape, self._normal(std))

    def short_lived(self, leaf: str) -> AbstractContextManager:
        """Within it a weight is unpacked; the backward pass unpacks again instead of keeping the floats."""
        inside = current_graph().region is not None                 # of a block that is computed again as a whole
        packed = self.packs(self.name(f"{leaf}.weight"))
        return nullcontext() if inside or not packed else F.checkpoint(f"{self.name(leaf)} unpacked")

    # ---- modules

    def linear(self, leaf: str, x: Tensor, width: int, bias: bool = False, layout: str = "out_in", std=None) -> Tensor:
        lora = self.adapter.plan.loras.get(self.name(leaf)) if self.adapter else None
        shape = (x.shape[-1], width) if layout == "in_out" else (width, x.shape[-1])
        if lora is None or not lora.dora:
            with self.short_lived(leaf):
                weight = self.weight(leaf, shape, std)
                base = F.linear(x, weight, self.parameter(f"{leaf}.bias", (width,), ZEROS) if bias else None, layout=layout)
            if lora is None:
                return base
        a, b = self.matrices(lora)
        dropped = dropout(x, lora.dropout, self.batch, f"{self.name(leaf)}.lora")
        if not lora.dora:
            return base + layers.low_rank(dropped, a, b, lora.scale)
        offset = self.parameter(f"{leaf}.bias", (width,), ZEROS) if bias else None
        magnitude = self.own(f"{self.name(leaf)}.lora_magnitude_vector", (width,), Constant(1.0), decay=False)
        with self.short_lived(leaf):
            return layers.dora(x, dropped, self.weight(leaf, shape, std), offset, a, b, magnitude, lora.scale, layout)

    def embedding(self, leaf: str, ids: Tensor, count: int, width: int, std=None) -> Tensor:
        name = self.name(leaf)
        found = super().embedding(leaf, ids, count, width, std)
        if self.adapter and name in self.adapter.plan.tokens:
            tokens = self.adapter.plan.tokens[name]
            found = layers.replaced_rows(ids, found, self.token_rows(name, width), tokens, count)
        if self.adapter and name in self.adapter.plan.loras:
            lora = self.adapter.plan.loras[name]
            found = found + layers.low_rank_rows(ids, *self.matrices(lora), lora.scale)
        return found

    def token_rows(self, name: str, width: int) -> Tensor:
        """The trained rows of an embedding, [n, width]."""
        tokens = self.adapter.plan.tokens[name]
        return self.own(f"{name}.token_adapter.trainable_tokens_delta", (len(tokens), width), self._normal(None))

    def head(self, name: str, table: Tensor) -> Tensor:
        """The weight of an output head with LoRA: W + s B A."""
        lora = self.adapter.plan.loras.get(name)
        return table if lora is None else table + layers.change_of(*self.matrices(lora), lora.scale)


def tied_table(w: AdapterWeights, embedding: str, table: Tensor) -> Tensor:
    """The table that a tied head reads: with the trained rows where there are any."""
    tokens = w.adapter.plan.tokens.get(embedding) if w.adapter else None
    return table if tokens is None else layers.replaced_table(table, w.token_rows(embedding, table.shape[1]), tokens)


