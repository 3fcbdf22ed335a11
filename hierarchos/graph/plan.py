"""What a program will need, known before anything is allocated."""
from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.memory import Interval, Layout, aligned, lay_out
from hierarchos.graph.ops.leaf import Constant, Input, State
from hierarchos.graph.passes import optimise
from hierarchos.graph.placement import Placement, Storage, lower, place
from hierarchos.graph.reuse import AssignElision, reuse_dying_inputs
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels.launch import Profile
from hierarchos.vulkan.errors import BufferTooLarge


@dataclass(eq=False, repr=False)
class Plan:
    """Sizes in bytes of everything that a program allocates or uses, and where its buffers lie.

    inputs, outputs, constants: blocks of the program. states: the whole store. activations, workspace: the program's arena,
    split as it is filled at its fullest step. device inputs are counted twice where they are copied to device memory.
    """

    graph: Graph
    placement: Placement
    arena: Layout
    places: dict[Storage, tuple[int, int]]          # storage -> (block of the arena, offset)
    declared: dict[str, Spec]                       # every input of the traced graph, those that nothing needs too
    inputs: int
    outputs: int
    constants: int
    states: int
    activations: int
    workspace: int

    @property
    def peak_bytes(self) -> int:
        """All of it: what the device must hold while the program runs."""
        return self.inputs + self.outputs + self.constants + self.states + self.activations + self.workspace

    def breakdown(self) -> dict[str, int]:
        """Bytes by kind."""
        kinds = ("states", "activations", "workspace", "constants", "inputs", "outputs")
        return {kind: getattr(self, kind) for kind in kinds}


@contextmanager
def without_collector() -> Iterator[None]:
    """Passes make many small objects and keep them: looking for garbage among them took a third of the time of a plan."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@without_collector()
def plan_program(graph: Graph, profile: Profile, layout: StoreLayout | None = None, block_bytes: int | None = None) -> Plan:
    """Optimises, places and lowers a graph; needs no device. `block_bytes`: the largest allocation the device allows."""
    declared = {node.op.name: node.op.spec for node in graph.nodes if isinstance(node.op, Input)}
    _check_states(graph, layout)
    graph = optimise(graph, layout)
    placement = place(graph)
    AssignElision(placement, layout).run()
    reuse_dying_inputs(placement)
    lower(placement, profile)
    buffers = [s for s in placement.storages if s.kind in ("activation", "workspace")]
    _check_sizes(placement, buffers, block_bytes)
    arena = lay_out([Interval(s.nbytes, s.start, s.end) for s in buffers], block_bytes)
    workspace = _workspace_at_peak(buffers)
    copies = 2 if copies_inputs(profile) else 1
    return Plan(graph, placement, arena, dict(zip(buffers, arena.places, strict=True)), declared,
                inputs=copies * sum(aligned(s.nbytes) for s in sources(graph, Input).values()),
                outputs=sum(aligned(t.spec.nbytes) for t in graph.outputs.values()),
                constants=sum(aligned(s.nbytes) for s in sources(graph, Constant).values()),
                states=layout.nbytes if layout else 0, activations=arena.nbytes - workspace, workspace=workspace)


def copies_inputs(profile: Profile) -> bool:
    """Whether inputs are copied from host memory into device memory before each run."""
    return profile.device_class == "gpu"


def sources(graph: Graph, kind: type) -> dict[str, Spec]:
    """Specs of the inputs (by name) or constants (by digest) that the graph reads, in order."""
    return {getattr(node.op, "name", None) or node.op.digest: node.op.spec for node in graph.nodes if isinstance(node.op, kind)}


def _workspace_at_peak(buffers: list[Storage]) -> int:
    """Bytes of scratch memory that live at the step where most bytes live."""
    changes: dict[int, list[int]] = {}
    for s in buffers:
        scratch = aligned(s.nbytes) if s.kind == "workspace" else 0
        for step, sign in ((s.start, 1), (s.end + 1, -1)):
            change = changes.setdefault(step, [0, 0])
            change[0] += sign * aligned(s.nbytes)
            change[1] += sign * scratch
    total = scratch = fullest = at_fullest = 0
    for step in sorted(changes):
        total, scratch = total + changes[step][0], scratch + changes[step][1]
        if total > fullest:
            fullest, at_fullest = total, scratch
    return at_fullest


def _check_sizes(placement: Placement, buffers: list[Storage], limit: int | None) -> None:
    """Refuses a buffer that is larger than what the device allocates at once."""
    largest = max(buffers, key=lambda s: s.nbytes, default=None)
    if limit is None or largest is None or aligned(largest.nbytes) <= limit:
        return
    node = placement.graph.nodes[largest.start]
    shapes = ", ".join(f"{tensor.spec.dtype}{list(tensor.spec.shape)}" for tensor in node.outputs)
    raise BufferTooLarge(f"{type(node.op).__name__} -> {shapes}", largest.nbytes, limit)


def _check_states(graph: Graph, layout: StoreLayout | None) -> None:
    for node in graph.nodes:
        if isinstance(node.op, State) and layout is not None and layout.find(node.op.name).spec != node.op.spec:
            kept = layout.find(node.op.name).spec
            raise ValueError(f"state {node.op.name}: the program reads {node.op.spec.dtype}{list(node.op.spec.shape)}, "
                             f"the store has {kept.dtype}{list(kept.shape)}")
