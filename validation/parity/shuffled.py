"""Matrix products whose sums run in another order: what another well-made float32 implementation of the same mathematics gives.

PyTorch adds up a product in the order of its memory. Here all three axes of every product are shuffled, so that the sums over the inner
axis, and in the backward pass those over the outer axes, run in another order; shuffles are exact, so only rounding differs.
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
