"""Our side of the comparison: the programs of training, on a Vulkan device or with the NumPy twins."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from hierarchos.graph import functions as F
from hierarchos.graph.op import tracing
from hierarchos.graph.tensor import Graph
from hierarchos.kernels.optimizer import BLOCK, adamw_scalars
from hierarchos.models.family import Model
from hierarchos.nn.batch import input_batch, logits
from hierarchos.training.graphs import (
    DECAY_GROUPS,
    FIRST,
    GRADIENTS,
    PARAMETERS,
    SECOND,
    Update,
    gradient_graph,
    trace_loss,
    update_graph,
)

RATE = 1e-3
NAMES = ("ids", "positions", "segments")


@dataclass
class Optimizer:
    """What `hierarchos.training` reads of its optimizer settings; eps and decay change between runs."""

    name: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    decay_vectors: bool = True
    no_decay: tuple[str, ...] = ()
    momentum: float = 0.0


@dataclass
class Settings:
    """What `TrainStep` reads of the training settings."""

    optimizer: Optimizer = field(default_factory=Optimizer)
    max_grad_norm: float = 0.0
    dropout: bool = False
    recompute: bool = False
    accumulation: int = 1


def logits_graph(model: Model, rows: int, length: int) -> Graph:
    """Inputs ids, positions, segments; output logits [rows, length, V]."""
    with tracing(Graph()) as graph:
        graph.outputs["logits"] = logits(model.forward(model.weights(), input_batch(rows, length)))
    return graph


def without_gradient(model: Model, rows: int, length: int) -> set[str]:
    """Parameters that the loss does not depend on."""
    with tracing(Graph()):
        w = model.weights()
        loss = trace_loss(model, w, input_batch(rows, length))
        tensors = [tensor for _, tensor in w.table.values()]
        return {spec.name for spec, gradient in zip(w.specs, F.gradients(loss, tensors), strict=True) if gradient is None}


class VulkanEngine:
    """Runs a case on a device with `TrainStep`, the step that training itself uses."""

    def __init__(self, device):
        self.handle = device
        self.device, self.driver = self.handle.info.name, self.handle.info.driver
        self.step = None

    def prepare(self, model: Model, values: dict, arrays: dict) -> None:
        """Compiles the programs of a case."""
        from hierarchos.graph.program import compile_program
        from hierarchos.training.state import TrainingState
        from hierarchos.training.step import TrainStep

        self.close()
        self.model, self.values, self.arrays, self.settings = model, values, arrays, Settings()
        self.state = TrainingState(model, self.handle, self.settings.optimizer)
        self.step = TrainStep(self.state, self.settings)
        self.head = compile_program(logits_graph(model, *arrays["ids"].shape), self.handle, self.state.store)
        self.state.load(values)

    def close(self) -> None:
        """Gives the memory of the case back."""
        if self.step:
            for program in (self.head, *self.step.programs.values()):
                program.close()
            for arena in list(self.state.store.allocations):
                self.state.store.free(arena)
            self.step = None

    def logits(self, arrays: dict | None = None) -> np.ndarray:
        """Of the case's batch, or of another one of the same shape."""
        return self.head.run({name: (arrays or self.arrays)[name] for name in NAMES})["logits"]

    @contextmanager
    def session(self, rows: int, capacity: int):
        """A session of generation over the case's values."""
        from hierarchos.generation.session import Session
        from hierarchos.graph.program import compile_program

        session = Session(self.model, self.state.store, rows, capacity, lambda graph, store: compile_program(graph, store.device, store))
        yield session
        session.close()

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        from hierarchos.training.step import model_feeds, trained_tokens

        program = self.step.gradient_program(*self.arrays["ids"].shape, accumulate=False)
        loss = float(program.run(model_feeds(self.arrays, trained_tokens(self.arrays)))["loss"])
        return loss, {spec.name: self.state.store.read(f"{GRADIENTS}/{spec.name}") for spec in self.state.specs}

    def train(self, steps: int, eps: float, decay: float) -> dict[str, np.ndarray]:
        """Parameters after `steps` from the case's values."""
        self.settings.optimizer.eps, self.settings.optimizer.weight_decay = eps, decay
        self.state.load(self.values)
        for arena in self.state.moments:
            self.state.store.zero(arena)
        for step in range(steps):
            self.step.run([self.arrays], step, RATE)
        return {spec.name: self.state.store.read(spec.name) for spec in self.state.specs}


class NumpyEngine:
    """Runs a case with the NumPy twins, over arenas laid out as a store lays them out."""

    device, driver = "numpy", np.__version__

    def __init__(self, dtype: str = "float32"):
        self.dtype = dtype

    def prepare(self, model: Model, values: dict, arrays: dict) -> None:
        self.model, self.values, self.arrays = model, values, arrays
        self.specs = model.parameters
        self.floats = sum(-(-spec.size // BLOCK) * BLOCK for spec in self.specs)
        self.gradient = gradient_graph(model, *arrays["ids"].shape, dropout=False, recompute=False, accumulate=False)
        self.update = update_graph(Update(self.floats))
        self.load()

    def load(self) -> None:
        """Arenas with views for the parameters and their gradients."""
        self.memory = {name: np.zeros(self.floats, self.dtype) for name in (PARAMETERS, GRADIENTS, FIRST, SECOND)}
        self.memory[DECAY_GROUPS] = np.zeros(self.floats // BLOCK, np.uint32)
        offset = 0
        for spec in self.specs:
            for arena, prefix in ((PARAMETERS, ""), (GRADIENTS, f"{GRADIENTS}/")):
                self.memory[prefix + spec.name] = self.memory[arena][offset:offset + spec.size].reshape(spec.shape)
            self.memory[spec.name][...] = self.values[spec.name]
            offset += -(-spec.size // BLOCK) * BLOCK

    def run(self, graph: Graph, feeds: dict) -> dict:
        from hierarchos.graph.evaluate import evaluate

        cast = {name: np.asarray(x, self.dtype) if np.asarray(x).dtype.kind == "f" else x for name, x in feeds.items()}
        return evaluate(graph, cast, self.memory, self.dtype)[0]

    def logits(self) -> np.ndarray:
        return self.run(logits_graph(self.model, *self.arrays["ids"].shape), {name: self.arrays[name] for name in NAMES})["logits"]

    def gradients(self) -> tuple[float, dict[str, np.ndarray]]:
        weights = self.arrays["token_weights"].astype(self.dtype)
        weights /= weights.sum()
        loss = self.run(self.gradient, {**self.arrays, "token_weights": weights})["loss"]
        return float(loss), {spec.name: self.memory[f"{GRADIENTS}/{spec.name}"].copy() for spec in self.specs}

    def train(self, steps: int, eps: float, decay: float) -> dict[str, np.ndarray]:
        self.load()
        for step in range(steps):
            self.gradients()
            self.run(self.update, {"scalars": adamw_scalars(step + 1, [(RATE, decay)] * 2, eps=eps)})
        return {spec.name: self.memory[spec.name].copy() for spec in self.specs}


def open_engine(selector: str):
    """"numpy", or a device as `hierarchos.vulkan` chooses it."""
    if selector == "numpy":
        return NumpyEngine()
    from hierarchos.vulkan import open_device

    return VulkanEngine(open_device(selector))


def use_gpu_kernels(compute_units: int) -> None:
    """Has the kernels for GPUs compute everything, on CPU drivers too: as if these had so many multiprocessors."""
    from hierarchos.graph import program, tuning

    plain = program.profile_of
    program.profile_of = tuning.profile_of = lambda device: replace(plain(device), device_class="gpu", compute_units=compute_units)


def split_all() -> None:
    """Has every product and attention computed on matrix units that can be, also those too small for it to pay."""
    from hierarchos.kernels import attention_split, gemm_gpu, gemm_split

    plain = gemm_gpu.expected

    def split(shape, profile):
        if not gemm_split.usable(shape.k, shape.batch, profile):
            return plain(shape, profile)
        return next(tile for tile in gemm_split.fitting(gemm_split.TILES, profile) if tile.m == 64), 1

    gemm_split.SHORTEST, gemm_gpu.expected, attention_split.FEWEST_LINES = 1, split, 1
    attention_split.is_exact = lambda *_: False
