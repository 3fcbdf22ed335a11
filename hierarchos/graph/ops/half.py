"""Products, attention, rope and the LM head over half tensors; `autocast.py` puts them in place of their fp32 kin after differentiation.

Operands are numbers of a half format, sums are fp32, results are fp32 or rounded once. Each knows its fp32 kin (`wide`), which computes
the same from widened operands where a device has no kernel for halves.
"""
from __future__ import annotations

from dataclasses import dataclass, fields

from hierarchos.graph.op import ShapeError
from hierarchos.graph.ops.attention import Attention, AttentionBackward
from hierarchos.graph.ops.lm_head import LmHeadLoss
from hierarchos.graph.ops.matmul import MatMul
from hierarchos.graph.ops.rope import Rope
from hierarchos.graph.tensor import Spec
from hierarchos.kernels.half import HALVES, round_to


class Half:
    """What they share. `halves`: output slots that are halves, in the format of the operands."""

    halves: tuple[int, ...] = ()

    @property
    def wide(self):
        """The fp32 op of the same attributes."""
        kin = type(self).__mro__[2]
        return kin(**{field.name: getattr(self, field.name) for field in fields(kin)})

    def infer(self, inputs):
        format_ = next((spec.dtype for spec in inputs if spec.dtype in HALVES), None)
        if format_ is None or any(spec.dtype in HALVES and spec.dtype != format_ for spec in inputs):
            raise ShapeError(f"{type(self).__name__}: operands must be of one half format; got {', '.join(s.dtype for s in inputs)}")
        outputs = self.wide.infer([Spec(spec.shape) if spec.dtype in HALVES else spec for spec in inputs])
        return [Spec(spec.shape, format_) if slot in self.halves else spec for slot, spec in enumerate(outputs)]

    def rounded(self, outputs: list, dtype: str) -> list:
        return [round_to(array, dtype) if slot in self.halves else array for slot, array in enumerate(outputs)]

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.widen import lower_widened
        return lower_widened(self.wide, inputs, outputs, profile)


@dataclass(frozen=True)
class HalfMatMul(Half, MatMul):
    """A MatMul of half operands a and b; bias and residual are fp32. result: "f32", or the format that it is rounded to."""

    result: str = "f32"

    @property
    def halves(self):
        return () if self.result == "f32" else (0,)

    def reference(self, inputs):
        return self.rounded(self.wide.reference(inputs), self.result)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.gemm_half import lower_half_matmul
        return lower_half_matmul(self, inputs, outputs, profile)


@dataclass(frozen=True)
class HalfAttention(Half, Attention):
    """q, k and v are halves, and so is out; scores, softmax and the log-sum-exp are fp32. format: of the halves."""

    format: str = "bf16"
    halves = (0,)

    def reference(self, inputs):
        return self.rounded(self.wide.reference(inputs), self.format)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.attention_half import half_forward
        return half_forward(self, inputs, outputs, profile)


@dataclass(frozen=True)
class HalfAttentionBackward(Half, AttentionBackward):
    """q, k, v, out and dout are halves, and so are dq, dk and dv. format: of the halves."""

    format: str = "bf16"
    halves = (0, 1, 2)

    def reference(self, inputs):
        return self.rounded(self.wide.reference(inputs), self.format)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.attention_half import half_backward
        return half_backward(self, inputs, outputs, profile)


@dataclass(frozen=True)
class HalfRope(Half, Rope):
    """x and the result are halves; angles and arithmetic are fp32. format: of the halves."""

    format: str = "bf16"
    halves = (0,)

    def reference(self, inputs):
        return self.rounded(self.wide.reference(inputs), self.format)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.rope import rope
        if profile.device_class == "gpu":
            return rope(self.layout, self.inverse, inputs, outputs, profile)
        from hierarchos.kernels.widen import lower_widened
        return lower_widened(Rope(self.layout, self.inverse), inputs, outputs, profile)


@dataclass(frozen=True)
class HalfLmHeadLoss(Half, LmHeadLoss):
    """x and weight are halves, and the gradient of the logits is rounded to them for its products; all results are fp32."""

    def reference(self, inputs):
        return self.wide.reference(inputs)

    def lower(self, inputs, outputs, profile):
        from hierarchos.kernels.lm_head_half import lower_half_lm_head
        return lower_half_lm_head(self, inputs, outputs, profile)
