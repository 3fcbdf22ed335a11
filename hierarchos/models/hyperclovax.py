"""HyperCLOVA X: Granite whose logits are multiplied by logits_scaling, with a second norm on what each sublayer gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.granite import GRANITE_TINY, GraniteConfig, granite_forward, read_scaled
from hierarchos.models.llama import extended
from hierarchos.nn.batch import Batch, Output
from hierarchos.nn.weights import Weights


@dataclass(frozen=True)
class HyperCLOVAXConfig(GraniteConfig):
    """post_norm: norms on what attention and MLP give."""

    post_norm: bool = True


def read(fields: Fields) -> HyperCLOVAXConfig:
    """attention_multiplier is head width^-0.5 where it is absent or null."""
    cfg = read_scaled(fields)
    if fields.any("attention_multiplier") is None:
        cfg = replace(cfg, score_scale=cfg.heads.width ** -0.5)
    return extended(HyperCLOVAXConfig, cfg, logit_scale=fields.number("logits_scaling", 1.0),
                    post_norm=fields.boolean("use_post_norm", True))


def second_norm(layer: Weights, norm, name: str, y: Tensor) -> Tensor:
    """post_norm1 on what attention gives, post_norm2 on what the MLP gives."""
    return norm(layer, {"attention": "post_norm1", "mlp": "post_norm2"}[name], y)


def hyperclovax_forward(cfg: HyperCLOVAXConfig, w: Weights, batch: Batch) -> Output:
    """Granite, with the second norms inside its factors."""
    return granite_forward(cfg, w, batch, **({"finish": second_norm} if cfg.post_norm else {}))


FAMILY = Family("hyperclovax", read, hyperclovax_forward, tiny={
    **GRANITE_TINY, "model_type": "hyperclovax", "architectures": ["HyperCLOVAXForCausalLM"], "logits_scaling": 0.125,
    "use_post_norm": True})
