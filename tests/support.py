"""Runs single operations on a device, for tests of kernels against their NumPy twins."""
from __future__ import annotations

import numpy as np

from hierarchos.graph import program, tuning
from hierarchos.graph.binding import bind, span_bytes
from hierarchos.graph.profile import profile_of
from hierarchos.graph.tensor import NUMPY_NAME, Spec
from hierarchos.kernels.launch import Operand, row_major
from validation.parity import engine

GUARD_BYTES = 256                                   # around every output and workspace; must stay untouched
GARBAGE = 0x7FC0BEEF                                # a NaN: reading what was never written shows


def run_op(device, op, *arrays: np.ndarray, profile=None) -> list[np.ndarray]:
    """Outputs of `op` on the device, for comparison with `op.reference(list(arrays))`.

    Strided NumPy views (transposes, broadcasts, slices; no negative strides) are handed over as strided operands where the op
    accepts them, else copied. Outputs that alias an input are read from its memory. Asserts that nothing is written outside.
    """
    profile = profile or profile_of(device)
    accepted = range(len(arrays)) if op.strided_inputs == "all" else op.strided_inputs
    arrays = [a if i in accepted else np.ascontiguousarray(a) for i, a in enumerate(map(np.asarray, arrays))]
    memory = Scratch(device)
    inputs = [memory.upload(a) for a in arrays]
    operands = [operand for _, operand in inputs]
    specs = op.infer([Spec(o.shape, o.dtype) for o in operands])
    outputs = [_output(op, slot, spec, inputs, memory) for slot, spec in enumerate(specs)]
    if all(op.alias(slot, operands) is not None and not op.alias(slot, operands).mutates for slot in range(len(specs))):
        return [memory.download(*bound) for bound in outputs]
    lowering = op.lower(operands, [operand for _, operand in outputs], profile)
    workspace = memory.reserve(lowering.workspace)
    device.execute(bind(lowering, inputs, outputs, workspace, type(op).__name__))
    memory.check_guards()
    return [memory.download(*bound) for bound in outputs]


def use_gpu_kernels(monkeypatch, compute_units: int) -> None:
    """`engine.use_gpu_kernels` until the test ends."""
    for module in (program, tuning):
        monkeypatch.setattr(module, "profile_of", module.profile_of)
    engine.use_gpu_kernels(compute_units)


def _output(op, slot: int, spec: Spec, inputs, memory: Scratch):
    alias = op.alias(slot, [operand for _, operand in inputs])
    if alias is None:
        return memory.reserve(spec.nbytes), Operand(spec.shape, spec.dtype, row_major(spec.shape))
    address, source = inputs[alias.input]
    return address + 4 * alias.offset, Operand(spec.shape, spec.dtype, alias.strides or source.strides)


class Scratch:
    """Device memory of one test: guarded ranges that are garbage until written. Freed with the object."""

    def __init__(self, device):
        self.device, self.kept, self.guards = device, [], []

    def reserve(self, nbytes: int) -> int:
        """Address of `nbytes` of garbage between two guards."""
        padded = -(-nbytes // 256) * 256
        block = self.device.allocate(padded + 2 * GUARD_BYTES, "test", host_visible=True)
        self.device.upload(block.address, np.full(block_words(padded), GARBAGE, "uint32"))
        self.kept.append(block)
        self.guards += [(block.address, GUARD_BYTES), (block.address + GUARD_BYTES + nbytes, GUARD_BYTES + padded - nbytes)]
        return block.address + GUARD_BYTES

    def upload(self, array: np.ndarray):
        """(address, operand) of a strided array: the memory that it spans is copied as it lies."""
        dtype = {"f": "f32", "i": "i32", "u": "u32", "b": "u32"}[array.dtype.kind]
        array = array if array.dtype == NUMPY_NAME[dtype] else array.astype(NUMPY_NAME[dtype])
        strides = tuple(s // 4 for s in array.strides)
        assert min(strides, default=0) >= 0, "negative strides are not supported"
        operand = Operand(array.shape, dtype, row_major(array.shape) if array.flags.c_contiguous else strides)
        address = self.reserve(span_bytes(operand))
        if array.size:
            flat = np.lib.stride_tricks.as_strided(array, (span_bytes(operand) // 4,), (4,))
            self.device.upload(address, np.ascontiguousarray(flat))
        return address, operand

    def download(self, address: int, operand: Operand) -> np.ndarray:
        """A contiguous array of what lies there."""
        flat = self.words(address, span_bytes(operand)).view(NUMPY_NAME[operand.dtype])
        strides = tuple(4 * s for s in operand.strides)
        return np.lib.stride_tricks.as_strided(flat, operand.shape, strides).copy()

    def words(self, address: int, nbytes: int) -> np.ndarray:
        return np.frombuffer(bytes(self.device.download(address, nbytes)), "uint32") if nbytes else np.zeros(0, "uint32")

    def check_guards(self) -> None:
        for address, nbytes in self.guards:
            assert (self.words(address, nbytes) == GARBAGE).all(), "a kernel wrote outside its outputs and workspace"


def block_words(padded: int) -> int:
    return (padded + 2 * GUARD_BYTES) // 4
