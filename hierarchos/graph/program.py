"""A graph compiled for a device: memory allocated, commands recorded, ready to be replayed."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hierarchos.graph.binding import bind
from hierarchos.graph.memory import aligned
from hierarchos.graph.ops.leaf import Constant, Input
from hierarchos.graph.placement import Storage
from hierarchos.graph.plan import Plan, copies_inputs, sources
from hierarchos.graph.profile import profile_of
from hierarchos.graph.scratch import Scratch
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import NUMPY_NAME, Graph, Spec, Tensor
from hierarchos.graph.tuning import tuned_plan
from hierarchos.kernels.launch import item_bytes
from hierarchos.vulkan.commands import Command, Copy, Span

if TYPE_CHECKING:
    import numpy as np


def compile_program(graph: Graph, device, store: StateStore | None = None, profile: bool = False, label: str = "program") -> Program:
    """Plans, allocates and records a graph over the states of `store`. `profile=True` times each command (slower)."""
    plan = tuned_plan(graph, device, store.layout if store else None)
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
    """Runs a compiled graph: `run(feeds)` gives the named outputs as arrays. `plan` says what it needs; close() frees its memory.

    Programs over one store share the memory of their activations, as large as the largest needs it."""

    def __init__(self, plan: Plan, device, store: StateStore | None, profile: bool, label: str):
        self.plan, self.device, self.store, self.last_value = plan, device, store, 0
        self.recording, self.blocks, self.profile, self.label = None, {}, profile, label
        self.scratch = store.scratch if store else Scratch(device)
        try:
            self._allocate(label)
            self._upload_constants()
            self._record()
        except BaseException:
            self.close()                            # what was allocated before the failure
            raise
        self._input_views = {name: self.blocks["inputs"].view(name) for name in self.blocks["inputs"].specs}
        self._output_views = {name: self.blocks["outputs"].view(name) for name in self.blocks["outputs"].specs}

    def _allocate(self, label: str) -> None:
        graph, device = self.plan.graph, self.device
        inputs, outputs = sources(graph, Input), {name: t.spec for name, t in graph.outputs.items() if t.spec.size}
        self.blocks["inputs"] = Block(device, inputs, f"{label} inputs", host_visible=True)
        if copies_inputs(profile_of(device)):
            self.blocks["staged"] = Block(device, inputs, f"{label} inputs on the device", host_visible=False)
        self.blocks["outputs"] = Block(device, outputs, f"{label} outputs", host_visible=True)
        self.blocks["constants"] = Block(device, sources(graph, Constant), f"{label} constants", host_visible=False)
        self.scratch.reserve(self, self.plan.arena.blocks, label)

    def _record(self) -> None:
        if self.recording:
            self.recording.close()
        self.recording = self.device.record(self.commands(), profile=self.profile, label=self.label)
        self.version = self.scratch.version

    def run(self, feeds: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Writes the inputs, replays once, waits, and returns copies of the outputs."""
        return self.submit(feeds or {}).result()

    def submit(self, feeds: Mapping[str, np.ndarray]) -> Pending:
        """Starts one replay and returns at once; it waits first when the previous replay still needs the input memory.

        The outputs of a replay must be read before the next one is submitted."""
        if self.last_value:
            self.device.wait(self.last_value)
        if self.version != self.scratch.version:
            self._record()                          # a larger program moved the activations
        self._write_inputs(feeds)
        self.last_value = self.recording.submit()
        return Pending(self, self.last_value)

    def submit_again(self) -> int:
        """Starts one more replay without waiting for earlier ones: for programs that keep all that changes in states."""
        if self.version != self.scratch.version:
            if self.last_value:
                self.device.wait(self.last_value)
            self._record()
        self.last_value = self.recording.submit()
        return self.last_value

    def read(self, value: int, name: str) -> np.ndarray:
        """A copy of an output once replay `value` has ended; replays submitted since may have written it again."""
        self.device.wait(value)
        return self._output_views[name].copy()

    def timings(self) -> list[tuple[str, float]]:
        """Label and seconds of each command of the last replay; needs `profile=True`."""
        return self.recording.timings()

    @property
    def allocations(self) -> list:
        """Its own allocations: without activations and the store."""
        return [block.memory for block in self.blocks.values() if block.memory]

    @property
    def allocated_bytes(self) -> int:
        """Bytes of all allocations, the store's included: equals `plan.peak_bytes` while no larger program shares the activations."""
        states = self.store.allocations.values() if self.store else ()
        return sum(memory.nbytes for memory in [*self.allocations, *states]) + self.scratch.nbytes

    def close(self) -> None:
        """Frees commands and memory; the store stays. May be called twice."""
        if self.recording:
            self.recording.close()
        self._input_views = self._output_views = {}
        for memory in self.allocations:
            memory.free()
        self.scratch.release(self)
        self.recording, self.blocks = None, {}

    def commands(self) -> list[Command]:
        """Everything that one replay does, in order."""
        placement, staged, outputs = self.plan.placement, self.blocks.get("staged"), self.blocks["outputs"]
        commands: list[Command] = [Copy(self.blocks["inputs"].span, staged.span, "inputs")] if staged and staged.nbytes else []
        for node, lowering in placement.lowerings.items():
            bound = [[(self.address(t), placement.places[t].operand) for t in tensors] for tensors in (node.inputs, node.outputs)]
            scratch = placement.workspaces.get(node)
            commands += bind(lowering, *bound, self._storage_address(scratch) if scratch else 0, type(node.op).__name__)
        for name, spec in outputs.specs.items():
            source = Span(self.address(self.plan.graph.outputs[name]), spec.nbytes)
            commands.append(Copy(source, Span(outputs.address(name), spec.nbytes), f"output {name}"))
        return commands

    def address(self, tensor: Tensor) -> int:
        """Device address of a tensor's first element."""
        place = self.plan.placement.places[tensor]
        return self._storage_address(place.storage.root) + item_bytes(tensor.dtype) * place.offset

    def _storage_address(self, storage: Storage) -> int:
        if storage.kind == "state":
            return self.store.address(storage.name)
        if storage.kind in ("input", "constant"):
            block = "constants" if storage.kind == "constant" else "staged" if "staged" in self.blocks else "inputs"
            return self.blocks[block].address(storage.name)
        block, offset = self.plan.places[storage]
        return self.scratch.blocks[block].address + offset

    def _upload_constants(self) -> None:
        import numpy as np
        for node in self.plan.graph.nodes:
            if isinstance(node.op, Constant) and node.op.data:
                self.device.upload(self.blocks["constants"].address(node.op.digest), np.frombuffer(node.op.data, np.uint8))

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
