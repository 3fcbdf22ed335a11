"""What another well-made float32 implementation of the same mathematics gives: sums in another order, results rounded another way.

PyTorch adds up a product in the order of its memory. `ShuffledSums` shuffles all three axes of every product, so that the sums over the
inner axis, and in the backward pass those over the outer axes, run in another order; shuffles are exact, so only rounding differs.
`RoundedResults` also moves every computed element by up to half a unit in its last place (Monte Carlo arithmetic: Parker, 1997), as
another implementation of a norm, a softmax or an activation does.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.overrides import TorchFunctionMode

PRODUCTS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm)


class ShuffledSums(TorchFunctionMode):
    """Linear layers and matrix products with shuffled axes. seed: which shuffles; they depend on it and on the size of the axis only."""

    def __init__(self, seed: int):
        super().__init__()
        self.seed, self.shuffle = seed, cache(self.permutation)

    def permutation(self, size: int, axis: int):
        """An order of an axis of that size; axis: 0, 1, 2 for rows, inner and outer."""
        return torch.randperm(size, generator=torch.Generator().manual_seed(1009 * self.seed + 7 * size + axis))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.linear:
            return self.linear(*args, **kwargs)
        if func is torch.addmm and not kwargs and args[0].dim() == 1:
            bias, x, weight = args
            return self.linear(x, weight.T, bias)
        if func in PRODUCTS and not kwargs and args[0].dim() == args[1].dim() > 2:
            return func(*self.inner(*args))
        return func(*args, **kwargs)

    def linear(self, input, weight, bias=None):
        """input [..., K] times the transpose of weight [N, K], plus bias [N]: rows, K and N shuffled, the result in its usual order."""
        rows = input.reshape(-1, input.shape[-1])
        row, inner, outer = self.shuffle(rows.shape[0], 0), self.shuffle(rows.shape[1], 1), self.shuffle(weight.shape[0], 2)
        result = torch.nn.functional.linear(rows[row][:, inner], weight[outer][:, inner], None if bias is None else bias[outer])
        return result[torch.argsort(row)][:, torch.argsort(outer)].reshape(*input.shape[:-1], weight.shape[0])

    def inner(self, a, b):
        """Both sides of a batched product [..., M, K] x [..., K, N], with K shuffled."""
        order = self.shuffle(a.shape[-1], 1)
        return a[..., order], b[..., order, :]


# Results that hold elements of their inputs and nothing new.
COPIES = frozenset((
    "cat", "chunk", "clone", "contiguous", "dropout", "embedding", "expand", "flatten", "flip", "float", "gather", "index_select",
    "masked_fill", "narrow", "pad", "permute", "relu", "repeat", "repeat_interleave", "reshape", "roll", "select", "split", "squeeze",
    "stack", "to", "transpose", "type_as", "unsqueeze", "view", "view_as", "where", "__getitem__"))
UNIT = 2.0 ** -24         # the unit roundoff of float32
MASKED = 1e30             # numbers beyond it stand for minus infinity


class RoundedResults(ShuffledSums):
    """Shuffled sums, and every float32 result that depends on a parameter times 1 + u, rounded again; u is uniform between minus and
    plus the unit roundoff. In the backward pass the gradient is moved by the same factor. seed: of shuffles and of u."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        if not isinstance(result, torch.Tensor) or result.dtype != torch.float32 or not result.requires_grad:
            return result
        if result.is_leaf or result._is_view() or getattr(func, "__name__", "") in COPIES or any(result is value for value in args):
            return result
        factor = 1 + UNIT * (2 * torch.rand(result.shape, generator=self.generator, dtype=torch.float64) - 1)
        return (result.double() * factor.where(result.detach().abs() < MASKED, torch.ones(()))).float()
