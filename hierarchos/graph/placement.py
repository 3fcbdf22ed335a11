"""Which memory each tensor lies in, how it lies there, and from when to when that memory is needed."""
from __future__ import annotations

from dataclasses import dataclass, field

from hierarchos.graph.ops.leaf import Constant, Input, State
from hierarchos.graph.tensor import Graph, Node, Tensor
from hierarchos.kernels.launch import Lowering, Operand, Profile, row_major

SOURCES = {Input: "input", State: "state", Constant: "constant"}


@dataclass(eq=False)
class Storage:
    """Memory of one buffer: of an input, a state or a constant by name, or a range of the program's arena.

    start, end: first and last step that touch it. home: the storage whose memory it uses instead of its own."""

    kind: str                                       # "input", "state", "constant", "activation", "workspace"
    nbytes: int
    start: int
    end: int
    name: str = ""
    home: Storage | None = None

    @property
    def root(self) -> Storage:
        return self if self.home is None else self.home.root

    def move_into(self, home: Storage) -> None:
        """Uses another storage's memory from now on."""
        self.home = home
        home.end = max(home.end, self.end)


@dataclass(frozen=True)
class Place:
    """A tensor's storage, its first element there (in elements) and its layout."""

    storage: Storage
    offset: int
    operand: Operand

    @property
    def whole(self) -> bool:
        """It is all of its storage, row-major."""
        return self.offset == 0 and self.operand.contiguous and self.operand.nbytes == self.storage.nbytes


@dataclass(eq=False)
class Placement:
    """Places of all tensors; ops to run (which passes may have replaced); lowerings and workspaces by node."""

    graph: Graph
    places: dict[Tensor, Place] = field(default_factory=dict)
    ops: dict[Node, object] = field(default_factory=dict)           # nodes that launch something
    lowerings: dict[Node, Lowering] = field(default_factory=dict)
    workspaces: dict[Node, Storage] = field(default_factory=dict)

    @property
    def storages(self) -> list[Storage]:
        """Every storage with memory of its own, once, in order of first use."""
        all_of_them = [place.storage.root for place in self.places.values()] + list(self.workspaces.values())
        return list(dict.fromkeys(all_of_them))

    def operands(self, tensors) -> list[Operand]:
        return [self.places[t].operand for t in tensors]


def place(graph: Graph) -> Placement:
    """Gives every tensor a storage of its own unless it aliases an input, and notes lifetimes."""
    placement, named = Placement(graph), {}
    for step, node in enumerate(graph.nodes):
        for tensor in node.inputs:
            placement.places[tensor].storage.end = step
        operands = placement.operands(node.inputs)
        aliases = [node.op.alias(slot, operands) for slot in range(len(node.specs))]
        for tensor, alias in zip(node.outputs, aliases, strict=True):
            placement.places[tensor] = _aliased(tensor, alias, node, placement) if alias else _new(tensor, step, named)
        if type(node.op) not in SOURCES and any(a is None or a.mutates for a in aliases):
            placement.ops[node] = node.op
    for tensor in graph.outputs.values():
        placement.places[tensor].storage.end = len(graph.nodes)
    return placement


def _aliased(tensor: Tensor, alias, node: Node, placement: Placement) -> Place:
    source = placement.places[node.inputs[alias.input]]
    strides = source.operand.strides if alias.strides is None else alias.strides
    return Place(source.storage, source.offset + alias.offset, Operand(tensor.shape, tensor.dtype, tuple(strides)))


def _new(tensor: Tensor, step: int, named: dict) -> Place:
    op, operand = tensor.node.op, Operand(tensor.shape, tensor.dtype, row_major(tensor.shape))
    kind = SOURCES.get(type(op), "activation")
    if kind == "activation":
        return Place(Storage(kind, tensor.spec.nbytes, step, step), 0, operand)
    name = op.digest if kind == "constant" else op.name
    storage = named.setdefault((kind, name), Storage(kind, tensor.spec.nbytes, step, step, name))
    return Place(storage, 0, operand)


def lower(placement: Placement, profile: Profile) -> None:
    """Lowers every node that launches something; equal nodes are lowered once."""
    known: dict = {}
    steps = {node: step for step, node in enumerate(placement.graph.nodes)}
    for node, op in placement.ops.items():
        inputs, outputs = placement.operands(node.inputs), placement.operands(node.outputs)
        key = (op, tuple(inputs), tuple(outputs))
        if key not in known:
            known[key] = op.lower(inputs, outputs, profile)
        placement.lowerings[node] = known[key]
        if known[key].workspace:
            placement.workspaces[node] = Storage("workspace", known[key].workspace, steps[node], steps[node])
