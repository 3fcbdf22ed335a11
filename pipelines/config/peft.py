"""Which small matrices are trained beside the frozen weights, and which adapters are used."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipelines.config.setting import setting


@dataclass(frozen=True)
class PeftConfig:
    """Adapters: `peft=lora` trains one, `peft=none` all parameters (docs/finetuning.md)."""

    method: str = setting("none", choices=("none", "lora"))
    """none: all parameters are trained; lora: small matrices beside frozen weights, saved as a PEFT adapter."""

    rank: int = setting(8, at_least=1)
    """Inner width of the matrices."""

    alpha: float | None = setting(None, above=0)
    """The matrices' product is multiplied by alpha / rank; null: twice the rank."""

    dropout: float = setting(0.0, at_least=0, below=1)
    """Share of an adapted layer's inputs that the matrices do not see, drawn anew each step."""

    rslora: bool = setting(False)
    """Divides alpha by the root of the rank instead of by the rank."""

    dora: bool = setting(False)
    """Trains the length of each row of the weights too (DoRA): a little better at low ranks, slower."""

    bias: str = setting("none", choices=("none", "lora_only", "all"))
    """Which biases are trained: none, those of adapted layers, or all."""

    target_modules: Any = setting("all-linear", accepts=(str, list))
    """all-linear; or names and ends of names, [q_proj, v_proj]; or one text with * or ( or |: an expression that a whole name matches."""

    exclude_modules: list[str] = setting([])
    """Names and ends of names that are left out."""

    layers_to_transform: list[int] = setting([])
    """Numbers of the layers that are adapted, from 0; [] for all."""

    layers_pattern: list[str] = setting([])
    """What stands before the number of a layer, where that is not the usual: [layers]."""

    rank_pattern: dict[str, Any] = setting({})
    """Ranks of some modules by the end of their name: {down_proj: 16}."""

    alpha_pattern: dict[str, Any] = setting({})
    """Alphas of some modules by the end of their name."""

    modules_to_save: list[str] = setting([])
    """Modules that are trained and saved as a whole: linear layers, norms, lm_head, embed_tokens."""

    trainable_token_indices: list[int] = setting([])
    """Ids of tokens whose rows of the embedding are trained, for example of new special tokens."""

    init: str = setting("default", choices=("default", "gaussian", "olora", "pissa"))
    """What the matrices start from: nothing that changes the model (default, gaussian), or a part of the weights (olora, pissa)."""

    lora_plus_ratio: float | None = setting(None, at_least=1)
    """LoRA+: learning rate of B matrices and of vectors (biases, norms, DoRA) to that of the rest; 16 is usual; null: the same."""

    lora_plus_embedding_rate: float = setting(1e-6, above=0)
    """LoRA+: highest learning rate of the matrices beside an embedding, whatever train.learning_rate is."""

    parameter_percent: float | None = setting(None, above=0, at_most=100)
    """Takes the largest rank whose matrices have at most this share of the model's parameters, in percent, instead of `rank`."""

    config: str | None = setting(None, path=True)
    """An adapter_config.json (or its folder) whose settings are used instead of all of the above but lora_plus_*."""

    path: str | None = setting(None, path=True)
    """Folder of an adapter: finetune goes on from its weights; evaluate and generate use it."""

    adapters: dict[str, Any] = setting({})
    """evaluate, generate: several adapters by name, {formal: FOLDER, short: FOLDER}."""

    active: str | None = setting(None)
    """evaluate, generate: the one of `adapters` that is used; `none` for the model alone; null: the first."""
