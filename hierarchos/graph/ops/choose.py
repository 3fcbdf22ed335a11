"""Choosing the next token of each row on the device, with all that the next step reads."""

from __future__ import annotations

from dataclasses import dataclass

from hierarchos.graph.op import Alias, Op, ShapeError, apply
from hierarchos.graph.tensor import Tensor


@dataclass(frozen=True)
class Choose(Op):
    """logits [B,V], settings u32 [16], states seen u32 [B,V], ids i32 [B,1], offset i32 [B], history i32 [B,H] -> the states after it:
    ids: the tokens; offset: one more; history: the token at offset mod H, -1 where logits were not numbers; seen: the token is marked."""

    effect = True

    def infer(self, inputs):
        logits, _settings, seen, ids, offset, history = inputs
        rows = logits.shape[0]
        if seen.shape != logits.shape or ids.shape != (rows, 1) or offset.shape != (rows,) or history.shape[0] != rows:
            raise ShapeError(f"choose: logits {list(logits.shape)}, seen {list(seen.shape)}, ids {list(ids.shape)} do not fit")
        return [seen, ids, offset, history]

    def reference(self, inputs):
        from hierarchos.kernels.choose import choose_reference

        return choose_reference(inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.choose import lower_choose

        return lower_choose(inputs, profile)

    def alias(self, slot, inputs):
        return Alias(2 + slot, mutates=True)


def choose(logits: Tensor, settings: Tensor, seen: Tensor, ids: Tensor, offset: Tensor, history: Tensor) -> tuple[Tensor, ...]:
    """The states seen, ids, offset and history after one token of each row."""
    return apply(Choose(), logits, settings, seen, ids, offset, history)
