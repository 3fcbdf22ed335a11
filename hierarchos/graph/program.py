"""A graph compiled for a device: memory allocated, commands recorded, ready to be replayed."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hierarchos.graph.binding import bind
from hierarchos.graph.memory import aligned
from hierarchos.graph.ops.leaf import Constant, Input
from hierarchos.graph.placement import Storage
from hierarchos.graph.plan import Plan, copies_inputs, plan_program, sources
from hierarchos.graph.profile import profile_of
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import NUMPY_NAME, Graph, Spec, Tensor
from hierarchos.vulkan.commands import Command, Copy, Span

if TYPE_CHECKING:
    import numpy as np


def compile_program(graph: Graph, device, store: StateStore | None = None, profile: bool = False, label: str = "program") -> Program:
    """Plans, allocates and records a graph over the states of `store`. `profile=True` times each command (slower)."""
    plan = plan_program(graph, profile_of(device), store.layout if store else None, device.info.max_allocation or None)
    return Program(plan, device, store, profile, label)


class Block:
    """Tensors side by side in one allocation, 256 bytes aligned, by name."""

    def __init__(self, device, specs: Mapping[str, Spec], label: str, host_visible: bool):
        self.specs, self.offsets, self.nbytes = dict(specs), {}, 0
        for name, spec in specs.items():
            self.offsets[name] = self.nbytes
            self.nbytes += aligned(spec.nbytes)
        self.memory = device.allocate(self.nbytes, label, host_visible=host_visible) if self.nbytes else None

    def address(self, name: str) -> int:
        return self.memory.address + self.offsets[name]

    def view(self, name: str) -> np.ndarray:
        """A tensor of a mapped block as an array over its memory."""
        spec, start = self.specs[name], self.offsets[name]
        return self.memory.view[start:start + spec.nbytes].view(NUMPY_NAME[spec.dtype]).reshape(spec.shape)

    @property
    def span(self) -> Span:
        return Span(self.memory.address, self.nbytes)


class Program:
    """Runs a compiled graph: `run(feeds)` gives the named outputs as arrays. `plan` says what it needs; close() frees its memory."""

    def __init__(self, plan: Plan, device, store: StateStore | None, profile: bool, label: str):
        self.plan, self.device, self.store, self.last_value = plan, device, store, 0
        graph, profiled = plan.graph, profile_of(device)
        self.inputs = Block(device, sources(graph, Input), f"{label} inputs", host_visible=True)
        self.staged = Block(device, sources(graph, Input), f"{label} inputs on the device", False) if copies_inputs(profiled) else None
        self.outputs = Block(device, {n: t.spec for n, t in graph.outputs.items() if t.spec.size}, f"{label} outputs", host_visible=True)
        self.constants = Block(device, sources(graph, Constant), f"{label} constants", host_visible=False)
        self.arena = [device.allocate(nbytes, f"{label} activations") for nbytes in plan.arena.blocks]
        self._upload_constants()
        self.recording = device.record(self.commands(), profile=profile, label=label)
        self._input_views = {name: self.inputs.view(name) for name in self.inputs.specs}
        self._output_views = {name: self.outputs.view(name) for name in self.outputs.specs}

    def run(self, feeds: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Writes the inputs, replays once, waits, and returns copies of the outputs."""
        return self.submit(feeds or {}).result()

    def submit(self, feeds: Mapping[str, np.ndarray]) -> Pending:
        """Starts one replay and returns at once; it waits first when the previous replay still needs the input memory.

        The outputs of a replay must be read before the next one is submitted."""
        if self.last_value:
            self.device.wait(self.last_value)
        self._write_inputs(feeds)
        self.last_value = self.recording.submit()
        return Pending(self, self.last_value)

    def timings(self) -> list[tuple[str, float]]:
        """Label and seconds of each command of the last replay; needs `profile=True`."""
        return self.recording.timings()

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all its allocations, the store's included: equals `plan.peak_bytes`."""
        blocks = [b.memory.nbytes for b in (self.inputs, self.staged, self.outputs, self.constants) if b and b.memory]
        states = sum(a.nbytes for a in self.store.allocations.values()) if self.store else 0
        return sum(blocks) + sum(a.nbytes for a in self.arena) + states

    def close(self) -> None:
        """Frees commands and memory; the store stays."""
        self.recording.close()
        self._input_views = self._output_views = {}
        for memory in [*self.arena, *(b.memory for b in (self.inputs, self.staged, self.outputs, self.constants) if b and b.memory)]:
            memory.free()
        self.arena = []

    def commands(self) -> list[Command]:
        """Everything that one replay does, in order."""
        placement = self.plan.placement
        commands: list[Command] = [Copy(self.inputs.span, self.staged.span, "inputs")] if self.staged and self.staged.nbytes else []
        for node, lowering in placement.lowerings.items():
            inputs, outputs = ([(self.address(t), placement.places[t].operand) for t in ts] for ts in (node.inputs, node.outputs))
            scratch = placement.workspaces.get(node)
            commands += bind(lowering, inputs, outputs, self._storage_address(scratch) if scratch else 0, type(node.op).__name__)
        for name in self.outputs.specs:
            tensor = self.plan.graph.outputs[name]
            source, target = self.address(tensor), self.outputs.address(name)
            commands.append(Copy(Span(source, tensor.spec.nbytes), Span(target, tensor.spec.nbytes), f"output {name}"))
        return commands

    def address(self, tensor: Tensor) -> int:
        """Device address of a tensor's first element."""
        place = self.plan.placement.places[tensor]
        return self._storage_address(place.storage.root) + 4 * place.offset

    def _storage_address(self, storage: Storage) -> int:
        if storage.kind == "state":
            return self.store.address(storage.name)
        if storage.kind in ("input", "constant"):
            block = self.constants if storage.kind == "constant" else self.staged or self.inputs
            return block.address(storage.name)
        block, offset = self.plan.places[storage]
        return self.arena[block].address + offset

    def _upload_constants(self) -> None:
        import numpy as np
        for node in self.plan.graph.nodes:
            if isinstance(node.op, Constant) and node.op.data:
                self.device.upload(self.constants.address(node.op.digest), np.frombuffer(node.op.data, np.uint8))

    def _write_inputs(self, feeds: Mapping[str, np.ndarray]) -> None:
        import numpy as np
        if feeds.keys() != self.plan.declared.keys():
            missing, extra = self.plan.declared.keys() - feeds.keys(), feeds.keys() - self.plan.declared.keys()
            raise ValueError(f"inputs missing: {sorted(missing)}; inputs that the program does not have: {sorted(extra)}")
        for name, view in self._input_views.items():
            array = feeds[name]
            if np.shape(array) != view.shape:
                raise ValueError(f"input {name} has shape {list(np.shape(array))}; the program was compiled for {list(view.shape)}")
            np.copyto(view, array, casting="same_kind" if view.dtype.kind == "f" else "unsafe")


class Pending:
    """A replay that was submitted."""

    def __init__(self, program: Program, value: int):
        self.program, self.value = program, value

    def result(self) -> dict[str, np.ndarray]:
        """Waits for the end and returns copies of the outputs."""
        import numpy as np
        program = self.program
        assert program.last_value == self.value, "the outputs were overwritten by a later replay"
        program.device.wait(self.value)
        empty = {n: np.zeros(t.shape, NUMPY_NAME[t.dtype]) for n, t in program.plan.graph.outputs.items() if not t.spec.size}
        return {name: view.copy() for name, view in program._output_views.items()} | empty
