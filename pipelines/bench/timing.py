"""Times a workload on a device: compiled once, replayed until the budget is spent."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from hierarchos.graph.op import tracing
from hierarchos.graph.program import Program, compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels.optimizer import BLOCK, adamw_scalars
from hierarchos.nn.initialise import initial_value
from hierarchos.nn.weights import Weights
from hierarchos.training.graphs import DECAY_GROUPS, FIRST, GRADIENTS, PARAMETERS, SECOND, Update, store_gradients, trace_update
from pipelines.bench.workloads import REPEAT, Workload


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one product or step: least and median over `runs`; seconds from nothing to the first result."""

    name: str
    milliseconds: float
    median: float
    runs: int
    setup_seconds: float
    dispatches: int
    host_milliseconds: float
    peak_bytes: int
    loss: float | None = None


def time_workload(workload: Workload, device, budget: float = 2.0, seed: int = 0, compute: str = "fp32") -> Timing:
    """Runs `workload` for about `budget` seconds (at least 3 times), products in the format `compute`."""
    begun = time.perf_counter()
    program, repeat = build(workload, device, seed, compute=compute)
    feeds = feeds_of(workload, seed)
    first = program.run(feeds)
    setup = time.perf_counter() - begun
    times = sample(lambda: program.run(feeds), budget)
    host = statistics.median(host_seconds(program, feeds) for _ in range(10))
    loss = float(first["loss"]) if "loss" in first else None
    return Timing(workload.name, 1e3 * min(times) / repeat, 1e3 * statistics.median(times) / repeat, len(times), setup,
                  program.recording.dispatches, 1e3 * host, program.plan.peak_bytes, loss)


def host_seconds(program: Program, feeds: dict) -> float:
    """Host work of one replay: writing inputs, submitting and reading outputs, without the wait for the device."""
    begun = time.perf_counter()
    pending = program.submit(feeds)
    submitted = time.perf_counter() - begun
    program.device.wait(pending.value)
    begun = time.perf_counter()
    pending.result()
    return submitted + time.perf_counter() - begun


def sample(run: Callable[[], object], budget: float) -> list[float]:
    """Seconds of each run, after two that are not counted."""
    run(), run()
    times, end = [], time.perf_counter() + budget
    while len(times) < 3 or (time.perf_counter() < end and len(times) < 500):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return times


def feeds_of(workload: Workload, seed: int) -> dict:
    """Inputs of a program that `build` made."""
    import numpy as np

    feeds = workload.feeds(np.random.default_rng(seed))
    return feeds | {"scalars": adamw_scalars(1, [(1e-3, 0.01), (1e-3, 0.0)])} if workload.trains else feeds


def build(workload: Workload, device, seed: int, profile: bool = False, compute: str = "fp32") -> tuple[Program, int]:
    """The program of a workload with its parameters in place, and how many products one run of it does."""
    with tracing(Graph()):
        w = Weights()
        workload.trace(w)
    store = StateStore(device)
    store.allocate(PARAMETERS, {spec.name: Spec(spec.shape) for spec in w.specs})
    for spec in w.specs:
        store.write(spec.name, initial_value(spec, seed))
    if not workload.trains and not workload.gradients:
        return compile_program(repeated(workload, compute), device, store, profile=profile), REPEAT
    for arena in (GRADIENTS, FIRST, SECOND) if workload.trains else (GRADIENTS,):
        store.mirror(arena, of=PARAMETERS)
    if workload.gradients:
        return compile_program(differentiated(workload, compute), device, store, profile=profile), 1
    floats = store.layout.find(PARAMETERS).spec.size
    store.allocate("decay", {DECAY_GROUPS: Spec((floats // BLOCK,), "u32")})
    with tracing(Graph(compute=compute)) as graph:
        w = Weights()
        graph.outputs["loss"] = workload.trace(w)
        store_gradients(graph.outputs["loss"], w)
        trace_update(Update(floats))
    return compile_program(graph, device, store, profile=profile), 1


def differentiated(workload: Workload, compute: str) -> Graph:
    """The gradients of everything, written into the store."""
    with tracing(Graph(compute=compute)) as graph:
        w = Weights()
        graph.outputs["loss"] = workload.trace(w)
        store_gradients(graph.outputs["loss"], w)
    return graph


def repeated(workload: Workload, compute: str) -> Graph:
    """The product twice in one program, into states so that nothing is read back."""
    with tracing(Graph(compute=compute)) as graph:
        for index in range(REPEAT):
            graph.outputs[f"corner{index}"] = workload.trace(Weights(prefix=""))[index:index + 1, :8]
    return graph
