"""Feed-forward blocks and the activations that config.json can name."""

from __future__ import annotations

from hierarchos.graph import functions as F
from hierarchos.graph.tensor import Tensor
from hierarchos.nn.weights import Weights

ACTIVATIONS = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "relu": "relu", "relu2": "relu_squared", "sigmoid": "sigmoid", "tanh": "tanh",
}  # names of Transformers -> names in functions.py


def activate(name: str, x: Tensor) -> Tensor:
    """Applies the activation that config.json calls `name`."""
    return getattr(F, ACTIVATIONS[name])(x)


def plain_mlp(w: Weights, x: Tensor, inner: int, activation: str, bias: bool = False,
              names: tuple[str, str] = ("up_proj", "down_proj")) -> Tensor:
    """down(activation(up(x))): [B,T,D] -> [B,T,D]."""
    up, down = names
    return w.linear(down, activate(activation, w.linear(up, x, inner, bias)), x.shape[-1], bias)


def fused_gated_mlp(w: Weights, x: Tensor, inner: int, activation: str, bias: bool = False) -> Tensor:
    """The gated MLP with gate and up in one projection, gate first."""
    gate, up = F.split(w.linear("gate_up_proj", x, 2 * inner, bias), (inner, inner), axis=2)
    return w.linear("down_proj", activate(activation, gate) * up, x.shape[-1], bias)


def gated_mlp(w: Weights, x: Tensor, inner: int, activation: str, bias: bool = False, finish=None) -> Tensor:
    """down(activation(gate(x)) * up(x)): [B,T,D] -> [B,T,D]; finish(w, product) changes what goes down."""
    product = activate(activation, w.linear("gate_proj", x, inner, bias)) * w.linear("up_proj", x, inner, bias)
    return w.linear("down_proj", finish(w, product) if finish else product, x.shape[-1], bias)
