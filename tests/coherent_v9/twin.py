"""Runs the programs of a chunk with the NumPy twins in float64 (or float32): the order in which a device replays them."""

from __future__ import annotations

import numpy as np

from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.passes import remove_dead
from hierarchos.graph.tensor import NUMPY_NAME
from hierarchos.models.coherent_v9 import feeds as given
from hierarchos.models.coherent_v9 import state as states
from hierarchos.models.coherent_v9.chunk import ALLOWED, FAST, Chunk, Kind
from hierarchos.models.coherent_v9.prepare import prepared_shapes, turned_shapes


class Twin:
    """One batch on the host. `values`: learned tensors by name; they are not changed."""

    def __init__(
        self, cfg, values, rows: int, *, padded=False, own_memory=False, filtered=False, training=True, dtype="float64", chunk=None
    ):
        self.cfg, self.dtype = cfg, dtype
        self.chunk = chunk or Chunk(cfg, Kind(rows, padded, own_memory, filtered, training))
        self.values = {name: np.array(value, dtype) for name, value in values.items()}
        self.gradients = {f"gradients/{name}": np.zeros(value.shape, dtype) for name, value in self.values.items()}
        self.prepared = {f"prepared/{name}": np.zeros(shape, dtype) for name, shape in (prepared_shapes(cfg) | turned_shapes(cfg)).items()}
        self.memory = {FAST: np.zeros(self.chunk.fast_shape(), dtype), ALLOWED: np.ones((rows, cfg.ltm_slots), dtype)}
        self.carried, self.rosa, self.position, self.warmup_step = states.zeros(cfg, rows, dtype), given.automata(cfg, rows), 0, 0.0
        self.live = {
            halves: tuple(remove_dead(g) if g else None for g in (halves.forward, halves.backward)) for halves in self.chunk.steps.values()
        }

    def run(self, graph, inputs, tape, offset=None):
        memory = {**self.values, **self.gradients, **self.prepared, **self.memory}
        memory |= {f"tape/{name}": array for name, array in tape.items()}
        if offset is not None:
            memory |= {f"{name}@{k}": array[offset + k] for name, array in tape.items() for k in (0, 1) if offset + k < len(array)}
        return evaluate(graph, inputs, memory, self.dtype)[0]

    def telemetry(self):
        """(depth, worker_steps) [T,B] of the chunk that ran last: 1 where nothing is planned."""
        steps = self.tape["worker_steps"]
        first = self.position - len(steps)
        plans = (first + np.arange(len(steps))) % self.cfg.h_stride == 0
        return np.where(plans[:, None], self.tape["depth"], np.sign(steps)), steps

    def new_tape(self, length):
        return {
            name: np.zeros(spec.shape, self.dtype if spec.dtype == "f32" else NUMPY_NAME[spec.dtype])
            for name, spec in self.chunk.tape_specs(length).items()
        }

    def forward(self, rows, start, end):
        """Fronts and steps of columns [start, end); the state is carried on."""
        self.tape, self.inputs = (
            self.new_tape(end - start),
            given.front_feeds(self.cfg, rows, start, end, self.position, self.rosa, self.warmup_step),
        )
        extra = {"active": given.active_feed(rows, start, end)} if self.chunk.kind.padded else {}
        self.run(self.chunk.front(end - start, True), self.inputs | extra, self.tape)
        for name, value in self.carried.items():
            self.tape[name][0] = value
        for t in range(end - start):
            self.run(self.live[self.chunk.step(self.position + t)][0], {}, self.tape, t)
        self.carried = {name: self.tape[name][-1].copy() for name in self.carried}
        self.position += end - start
        return self.run(self.chunk.logits(end - start), {}, self.tape)["logits"].swapaxes(0, 1)

    def backward(self, rows, start, end, label_scale=1.0, token_scale=1.0, max_ce=0.0):
        """Losses; gradients are added. Belongs to the `forward` before it."""
        length, position = end - start, self.position - (end - start)
        losses = self.run(
            self.chunk.head(length), given.head_feeds(self.cfg, rows, start, end, position, (label_scale, token_scale, max_ce)), self.tape
        )
        every = self.cfg.detach_every_n_steps
        for t in reversed(range(length)):
            self.run(self.live[self.chunk.step(position + t)][1], {}, self.tape, t)
            if every and t and t % every == 0:
                for name in states.DIFFERENTIABLE:
                    self.tape[f"d.{name}"][t] = 0
        self.run(self.chunk.collect(length), {k: v for k, v in self.inputs.items() if k != "share"}, self.tape)
        return {name: float(value[0]) for name, value in losses.items()}
