"""CodeGen: GPT-J with q, v and k in one projection, in four groups of heads: [group, q v k, heads of the group]."""

from __future__ import annotations

from functools import partial

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.models.config import Fields
from hierarchos.models.family import Family
from hierarchos.models.gptj import GPTJ_TINY, GPTJConfig, forward
from hierarchos.models.gptj import read as read_gptj
from hierarchos.nn.attention import Heads
from hierarchos.nn.weights import Weights

GROUPS = 4      # devices that the released models were trained on


def read(fields: Fields) -> GPTJConfig:
    """As GPT-J; the groups must fit."""
    cfg = read_gptj(fields)
    if cfg.width % GROUPS:
        raise fields.refuse("n_embd", f"a multiple of {GROUPS}")
    return cfg


def grouped(w: Weights, x: Tensor, heads: Heads, bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v [B,T,H,D] from groups of q, v, k."""
    width = heads.queries * heads.width
    fused = F.reshape(w.linear("qkv_proj", x, 3 * width, bias), (*x.shape[:2], GROUPS, 3, width // GROUPS))
    q, v, k = (F.reshape(fused[:, :, :, part], (*x.shape[:2], heads.queries, heads.width)) for part in range(3))
    return q, k, v


FAMILY = Family("codegen", read, partial(forward, project=grouped), base="transformer", embedding="transformer.wte.weight",
                buffers=(r"\.attn\.(causal_mask|bias|masked_bias)$",),
                tiny={"model_type": "codegen", "architectures": ["CodeGenForCausalLM"], **GPTJ_TINY})
