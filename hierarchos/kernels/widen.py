"""Operations on half tensors where no kernel reads halves: inputs are widened to fp32 in scratch memory, results are rounded from it.

The numbers are those of a kernel that reads halves: widening is exact, and each result is rounded once.
"""
from __future__ import annotations

from dataclasses import replace

from hierarchos.kernels.elementwise import elementwise_launch
from hierarchos.kernels.expression import Expression, Instruction
from hierarchos.kernels.half import HALVES
from hierarchos.kernels.launch import In, Launch, Lowering, Operand, Out, Profile, Ref, Work, row_major


def lower_widened(op, inputs: list[Operand], outputs: list[Operand], profile: Profile) -> Lowering:
    """The lowering of an fp32 op over operands of which some are halves."""
    places = _Places()
    wide_in = [places.add(In(i), operand) for i, operand in enumerate(inputs)]
    wide_out = [places.add(Out(i), operand) for i, operand in enumerate(outputs)]
    inner = op.lower(wide_in, wide_out, profile)
    places.base = -(-inner.workspace // 256) * 256
    before = [cast_launch(In(i), places.whole(In(i), False, True), o, w, profile)
              for i, (o, w) in enumerate(zip(inputs, wide_in, strict=True)) if In(i) in places.starts]
    after = [cast_launch(places.whole(Out(i), True, False), Out(i), w, o, profile)
             for i, (o, w) in enumerate(zip(outputs, wide_out, strict=True)) if Out(i) in places.starts]
    launches = [places.redirected(item) for item in inner.launches]
    return Lowering((*before, *launches, *after), places.base + places.nbytes)


def cast_launch(source: Ref, target: Ref, source_operand: Operand, target_operand: Operand, profile: Profile) -> Launch:
    """Copies an operand into another of the same shape and another float format."""
    expression = Expression((source_operand.dtype,), (Instruction("cast", (0,), (target_operand.dtype,)),), (1,))
    launch = elementwise_launch(expression, [source_operand, target_operand], [source, target], profile)
    return replace(launch, label=f"cast to {target_operand.dtype}")


class _Places:
    """Where the fp32 copies of half operands lie in scratch memory, behind that of the op itself."""

    def __init__(self):
        self.starts: dict[Ref, tuple[int, int]] = {}                # of In(i) or Out(i): start behind `base`, bytes
        self.nbytes, self.base = 0, 0

    def add(self, ref: Ref, operand: Operand) -> Operand:
        if operand.dtype not in HALVES:
            return operand
        wide = Operand(operand.shape, "f32", row_major(operand.shape))
        self.starts[ref] = self.nbytes, 4 * wide.size
        self.nbytes += -(-4 * wide.size // 256) * 256
        return wide

    def whole(self, ref: Ref, read: bool, write: bool, offset: int = 0) -> Work:
        start, nbytes = self.starts[ref]
        return Work(self.base + start + offset, nbytes - offset, read, write)

    def _moved(self, argument):
        if isinstance(argument, In) and In(argument.index) in self.starts:
            return self.whole(In(argument.index), True, False, argument.offset)
        if isinstance(argument, Out) and Out(argument.index) in self.starts:
            return self.whole(Out(argument.index), argument.read, True, argument.offset)
        return argument

    def redirected(self, item):
        if isinstance(item, Launch):
            return replace(item, arguments=tuple(map(self._moved, item.arguments)))
        return replace(item, target=self._moved(item.target))
