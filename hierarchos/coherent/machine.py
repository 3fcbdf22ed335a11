"""coherent-v9 on a device: its memory, the programs of a chunk, and one recording for all of a chunk's tokens."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hierarchos.coherent.limits import check_heads
from hierarchos.coherent.replay import TAPE, Moving, RecordStore, moving_commands, part
from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec
from hierarchos.models.coherent_v9 import feeds as host
from hierarchos.models.coherent_v9.chunk import ALLOWED, FAST, Chunk, Kind
from hierarchos.models.coherent_v9.config import Config
from hierarchos.models.coherent_v9.parameters import parameters
from hierarchos.models.coherent_v9.prepare import prepared_shapes, turned_shapes
from hierarchos.models.coherent_v9.state import DIFFERENTIABLE, state_shapes
from hierarchos.vulkan.commands import Command, Copy, Fill, Span

if TYPE_CHECKING:
    import numpy as np

PARAMETERS, GRADIENTS = "parameters", "gradients"
# programs over all tokens, between which the tokens run: losses and gradients; losses; gradients of a segment; logits
RECORDINGS = {"step": ("front", "head", "collect"), "loss": ("front", "losses"), "segment": ("front", "segment", "collect"),
              "logits": ("front", "logits")}
EXTRA = ("y.", "r.")                                # records that a token without a plan leaves unwritten


class Memory:
    """Learned tensors, their gradients when training, arranged weights: what all kinds of chunks share."""

    def __init__(self, cfg: Config, device, training: bool):
        self.cfg, self.device, self.training, self.machines = cfg, device, training, 0
        check_heads(cfg)
        self.store = StateStore(device)
        self.store.allocate(PARAMETERS, {spec.name: Spec(spec.shape) for spec in parameters(cfg)})
        if training:
            self.store.mirror(GRADIENTS, of=PARAMETERS)
        arranged = prepared_shapes(cfg) | (turned_shapes(cfg) if training else {})
        self.store.allocate("prepared", {f"prepared/{name}": Spec(shape) for name, shape in arranged.items()})

    def load(self, values: Mapping[str, np.ndarray]) -> None:
        for spec in parameters(self.cfg):
            self.store.write(spec.name, values[spec.name])

    def values(self) -> dict[str, np.ndarray]:
        return {spec.name: self.store.read(spec.name) for spec in parameters(self.cfg)}


class Machine:
    """Chunks of one kind, at most `length` tokens long. The carried state lies in record 0 of the tape between chunks."""

    def __init__(self, memory: Memory, kind: Kind, length: int, chunk: Chunk | None = None):
        self.memory, self.cfg, self.device, self.store = memory, memory.cfg, memory.device, memory.store
        self.kind, self.length, self.chunk = kind, length, chunk or Chunk(memory.cfg, kind)
        self.arena = f"{TAPE} {memory.machines}"
        memory.machines += 1
        slots = {FAST: Spec(self.chunk.fast_shape()), ALLOWED: Spec((kind.rows, self.cfg.ltm_slots))}
        self.store.allocate(self.arena, self._own(self.chunk.tape_specs(length)))
        self.store.allocate(f"{self.arena} memory", {f"{self.arena}/{name}": spec for name, spec in slots.items()})
        self.store.write(f"{self.arena}/{ALLOWED}", _ones(kind.rows, self.cfg.ltm_slots))
        self.records = RecordStore(self._view(length), self.chunk.tape)
        self.parts, self.moving, self.recordings = {}, {}, {}
        for plan, halves in self.chunk.steps.items():
            self._token(("forward", plan), halves.forward)
            if kind.training:
                self._token(("backward", plan), halves.backward)
        if not kind.training:
            self.arrange()

    def _own(self, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        return {f"{self.arena}/{TAPE}/{name}": spec for name, spec in specs.items()}

    def _view(self, length: int) -> MachineStore:
        return MachineStore(self.store, self.arena, self.chunk, length)

    def _token(self, key: tuple, graph) -> None:
        self.parts[key] = part(graph, self.device, self.records, f"{key[0]} of a {'planning ' if key[1] else ''}token")

    def arrange(self) -> None:
        """Arranges the weights for the steps; training does so in every chunk."""
        program = part(self.chunk.arrange(), self.device, self._view(self.length), "arranged weights")
        self.device.execute(program.commands(), "arranged weights")
        program.close()

    def close(self) -> None:
        """Frees its programs and its tape; learned tensors stay."""
        for recording in self.recordings.values():
            recording.close()
        for program in self.parts.values():
            program.close()
        self.parts, self.recordings = {}, {}
        for arena in (self.arena, f"{self.arena} memory"):
            self.store.free(arena)

    # ---- programs over all tokens

    def whole(self, name: str, length: int):
        """The program `front`, `head`, `segment`, `losses`, `collect` or `logits` for `length` tokens; made at its first use."""
        key = (name, length)
        if key not in self.parts:
            graph = self.chunk.front(length, self.kind.training) if name == "front" else getattr(self.chunk, name)(length)
            self.parts[key] = part(graph, self.device, self._view(length), f"{name} of {length} tokens")
        return self.parts[key]

    # ---- commands

    def tokens(self, direction: str, position: int, length: int) -> list[Command]:
        """Commands of all tokens, in the order of the direction; with the cuts of gradients between them."""
        commands, order = [], range(length) if direction == "forward" else reversed(range(length))
        every = self.cfg.detach_every_n_steps
        for t in order:
            plan = (position + t) % self.cfg.h_stride == 0
            commands += [moving.at(t) for moving in self._moving((direction, plan))]
            if direction == "backward" and every and t and t % every == 0:
                commands += [Fill(self.record(f"d.{name}", t)) for name in DIFFERENTIABLE]
        return commands

    def _moving(self, key: tuple) -> list[Moving]:
        version = self.store.scratch.version
        if self.moving.get(key, (None, -1))[1] != version:
            self.moving[key] = (moving_commands(self.parts[key]), version)
        return self.moving[key][0]

    def record(self, name: str, token: int) -> Span:
        """Memory of one record."""
        nbytes = self.chunk.tape.specs[name].nbytes
        return Span(self.store.address(f"{self.arena}/{TAPE}/{name}") + token * nbytes, nbytes)

    def carry(self, length: int) -> list[Command]:
        """What the last token left becomes what the first one finds."""
        return [Copy(self.record(name, length), self.record(name, 0), "carried state") for name in state_shapes(self.cfg, self.kind.rows)]

    def clear(self, length: int, from_behind: bool = False) -> list[Command]:
        """No gradient comes from behind the chunk, but that of the segment there; none from uses of weights that a token without a
        plan does not have."""
        ends = [self.record(f"d.{name}", length) for name in DIFFERENTIABLE]
        starts = [self.record(f"d.{name}", 0) for name in DIFFERENTIABLE]
        fills = [Copy(start, end, "gradient from behind") for start, end in zip(starts, ends, strict=True)] if from_behind else \
            [Fill(end) for end in ends]
        for name in self.chunk.tape.specs if False in self.chunk.steps else ():
            if name.startswith(EXTRA) and name not in self._common():
                whole = self.record(name, 0)
                fills.append(Fill(Span(whole.address, whole.nbytes * length)))
        return fills

    def _common(self) -> set[str]:
        """Records that tokens of both sorts write."""
        from hierarchos.graph.ops.leaf import State
        return {node.op.name.partition("@")[0] for node in self.chunk.steps[False].backward.nodes if isinstance(node.op, State)}

    def recording(self, what: str, position: int, length: int):
        """One command buffer: see RECORDINGS."""
        key = (what, position % self.cfg.h_stride, length)
        names, backward = RECORDINGS[what], "collect" in RECORDINGS[what]
        parts = [self.whole(name, length) for name in names]
        version = self.store.scratch.version
        if key in self.recordings and self.recordings[key].scratch_version == version:
            return self.recordings[key]
        commands = self.clear(length, from_behind=what == "segment") if backward else []
        commands += parts[0].commands() + self.tokens("forward", position, length) + parts[1].commands()
        if backward:
            commands += self.tokens("backward", position, length) + parts[2].commands()
        recording = self.device.record(commands + self.carry(length), label=f"{what} of {length} tokens")
        recording.scratch_version = version
        self.recordings[key] = recording
        return recording

    # ---- running

    def own(self, name: str) -> str:
        """What the store calls this machine's FAST or ALLOWED."""
        return f"{self.arena}/{name}"

    def reset(self) -> None:
        """The state before the first token; an empty fast memory."""
        self.device.execute([Fill(self.record(name, 0)) for name in state_shapes(self.cfg, self.kind.rows)], "state of a new batch")
        self.store.zero(self.own(FAST))

    def end_of_graph(self) -> None:
        """No gradient comes from behind the segment that runs next."""
        self.device.execute([Fill(self.record(f"d.{name}", 0)) for name in DIFFERENTIABLE], "end of a graph")

    def write_state(self, parts: Mapping[str, np.ndarray]) -> None:
        import numpy as np
        for name in state_shapes(self.cfg, self.kind.rows):
            self.device.upload(self.record(name, 0).address, np.ascontiguousarray(parts[name], np.float32))

    def read_state(self) -> dict[str, np.ndarray]:
        return {name: self.read(name, 1)[0] for name in state_shapes(self.cfg, self.kind.rows)}

    def read(self, name: str, length: int) -> np.ndarray:
        """The first `length` records."""
        import numpy as np
        spec, span = self.chunk.tape.specs[name], self.record(name, 0)
        raw = self.device.download(span.address, span.nbytes * length)
        return np.frombuffer(bytes(raw), np.float32 if spec.dtype == "f32" else np.int32).reshape(length, *spec.shape).copy()

    def run(self, what: str, rows: host.Rows, start: int, end: int, position: int, rosa, warmup_step: float = 0.0,
            scalars: tuple[float, ...] = (1.0, 1.0, 0.0)) -> dict[str, np.ndarray]:
        """Runs columns [start, end), the first at absolute `position`; the automata of `rosa` are fed. Returns the
        outputs of head, segment or logits. scalars: what the head is told (head.SCALARS, or OF_A_SEGMENT)."""
        length = end - start
        recording = self.recording(what, position, length)
        front = host.front_feeds(self.cfg, rows, start, end, position, rosa, warmup_step)
        shared = {name: value for name, value in front.items() if name != "share"}
        active = {"active": host.active_feed(rows, start, end)} if self.kind.padded else {}
        self.whole("front", length).write(front | active)
        last = self.whole(RECORDINGS[what][1], length)
        if what != "logits":
            last.write(host.head_feeds(self.cfg, rows, start, end, position, scalars))
        if "collect" in RECORDINGS[what]:
            self.whole("collect", length).write(shared)
        recording.run()
        return last.results()


class MachineStore:
    """The store as programs of one machine see it: `tape/NAME` and `memory/NAME` are its own, the tape holds `length` tokens."""

    def __init__(self, store: StateStore, arena: str, chunk: Chunk, length: int):
        self.store, self.scratch, self.allocations = store, store.scratch, store.allocations
        self.layout = StoreLayout(dict(store.layout.locations), dict(store.layout.arenas))
        self.names = {name: f"{arena}/{name}" for name in (FAST, ALLOWED)}
        self.names |= {f"{TAPE}/{name}": f"{arena}/{TAPE}/{name}" for name in chunk.tape.specs}
        specs = {f"{TAPE}/{name}": spec for name, spec in chunk.tape_specs(length).items()}
        for name, own in self.names.items():
            place = store.layout.find(own)
            self.layout.locations[name] = replace(place, spec=specs.get(name, place.spec))

    def address(self, name: str) -> int:
        return self.store.address(self.names.get(name, name))


def _ones(*shape: int) -> np.ndarray:
    import numpy as np
    return np.ones(shape, np.float32)
