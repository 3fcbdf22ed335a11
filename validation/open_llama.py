"""Open-Llama for Transformers, which has dropped it: its own Llama with a LayerNorm on the embedding. Importing this registers it."""

from __future__ import annotations

from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM


class OpenLlamaConfig(LlamaConfig):
    """Llama's fields, and the two switches of Open-Llama."""

    model_type = "open-llama"
    use_stable_embedding: bool = True
    shared_input_output_embedding: bool = True


class OpenLlamaForCausalLM(LlamaForCausalLM):
    """The norm is held by the body, whose embedding it follows."""

    config_class = OpenLlamaConfig

    def __init__(self, config):
        super().__init__(config)
        if config.use_stable_embedding:
            self.model.embed_layer_norm = nn.LayerNorm(config.hidden_size)
            self.model.embed_tokens.register_forward_hook(lambda module, args, output: self.model.embed_layer_norm(output))


AutoConfig.register("open-llama", OpenLlamaConfig)
AutoModelForCausalLM.register(OpenLlamaConfig, OpenLlamaForCausalLM)
