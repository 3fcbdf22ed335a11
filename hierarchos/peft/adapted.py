"""A model with adapters: the same architecture, whose base is frozen. Everything that takes a `Model` takes it."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hierarchos.errors import UserError, nearest
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.models.family import Model
from hierarchos.nn.batch import Batch, Output, input_batch
from hierarchos.nn.stored import FLOATS
from hierarchos.nn.weights import ParameterSpec
from hierarchos.peft.adapter import DEFAULT, EVEN, Adapter, Rates
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.order import neighbours_together
from hierarchos.peft.select import plan_of
from hierarchos.peft.sites import sites_of
from hierarchos.peft.weights import AdapterWeights, tied_table


@dataclass(frozen=True, eq=False)
class Adapted(Model):
    """`adapters` by name; `active` is the one that computes and trains, None: the base alone. stored: format of the
    frozen weights of linear layers on the device."""

    adapters: Mapping[str, Adapter] = field(default_factory=dict)
    active: str | None = None
    stored: str = FLOATS

    @property
    def adapter(self) -> Adapter | None:
        return None if self.active is None else self.adapters[self.active]

    def use(self, name: str | None) -> Adapted:
        """The same model with another adapter active, or with none; raises UserError for a name that is not loaded."""
        if name is not None and name not in self.adapters:
            raise UserError(f"there is no adapter {name!r}", nearest=nearest(name, self.adapters),
                            hint=f"loaded are: {', '.join(self.adapters) or 'none'}")
        return replace(self, active=name)

    def having(self, adapter: Adapter) -> Adapted:
        """With one more adapter, which becomes the active one."""
        return replace(self, adapters={**self.adapters, adapter.name: adapter}, active=adapter.name)

    def weights(self, **options) -> AdapterWeights:
        return AdapterWeights(std=self.config.initializer_range, adapter=self.adapter, stored=self.stored, **options)

    def forward(self, w: AdapterWeights, batch: Batch) -> Output:
        """The family's forward pass; the head is then the one that the adapter means."""
        w = replace(w, batch=batch)
        output = self.family.forward(self.config, w, batch)
        return output if w.adapter is None else self._with_head(w, output)

    def _with_head(self, w: AdapterWeights, output: Output) -> Output:
        """A tied head follows its embedding only where PEFT's would: trained rows yes, an embedding saved as a whole no."""
        plan, head = w.adapter.plan, self.family.head.removesuffix(".weight")
        table, shape, name = output.head, output.head.shape, output.head_name
        embedding = self.family.embedding.removesuffix(".weight")
        if self.config.tied and head in plan.saved:
            name = f"{head}.weight"
            table = w.parameter(name, shape)
        elif self.config.tied:
            followed = embedding in plan.saved and w.adapter.config.ensure_weight_tying
            table = table if followed else tied_table(w, embedding, w.frozen(self.family.embedding, shape))
        return replace(output, head=w.head(head, table), head_name=name)

    @cached_property
    def parameters(self) -> tuple[ParameterSpec, ...]:
        """Those of the base (frozen), then those of the active adapter (trained) and of the others."""
        found: dict[str, ParameterSpec] = {}
        for name in dict.fromkeys((self.active, *self.adapters, None)):
            for spec in self._traced(name):
                found.setdefault(spec.name, spec if name == self.active else replace(spec, trained=False))
        return neighbours_together(tuple(found.values()))

    def _traced(self, name: str | None) -> tuple[ParameterSpec, ...]:
        model = replace(self, active=name)
        w = model.weights()
        with tracing(Graph()):
            model.forward(w, input_batch(1, 1))
        return w.specs

    @property
    def size(self) -> int:
        """Number of values of the base and of the active adapter."""
        return sum(spec.size for spec in self.parameters if ":" not in spec.name or spec.trained)

    @property
    def trained(self) -> tuple[ParameterSpec, ...]:
        return tuple(spec for spec in self.parameters if spec.trained)


def adapted(model: Model, config: LoraConfig, name: str = DEFAULT, rates: Rates = EVEN, where: str = "peft") -> Adapted:
    """A model with a new adapter on it, the active one."""
    base = model if isinstance(model, Adapted) else Adapted(model.family, model.config, model.raw, model.wrapper)
    sites = sites_of(base_of(base))
    plan = plan_of(config, sites, where)
    layouts = {lora.site.layout for lora in plan.loras.values()}
    turned = replace(config, fan_in_fan_out="in_out" in layouts)
    return base.having(Adapter(name, turned, plan, rates))


def kept_in(model: Model, stored: str) -> Model:
    """The model with the frozen weights of its linear layers in another format; without adapters all of them are frozen."""
    if stored == FLOATS:
        return model
    base = model if isinstance(model, Adapted) else Adapted(model.family, model.config, model.raw, model.wrapper)
    return replace(base, stored=stored)


def base_of(model: Model) -> Model:
    """The model without adapters."""
    return Model(model.family, model.config, model.raw, model.wrapper)
