"""The two floors of each workload of `hierarchos bench`: operations over a rate, bytes over a bandwidth. The larger is the limit.

    python -m validation.floors                                  with the rates of an NVIDIA H200
    python -m validation.floors llama-4x256 --tflops 51 --bandwidth 4.3

Operations: products and attention of the planned step (attention's backward computes its scores again; that counts). Bytes: weights read
forward and backward, gradients written, the optimizer (28 bytes a parameter), every kept activation written and read once.
"""
from __future__ import annotations

import argparse
from dataclasses import dataclass

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.op import tracing
from hierarchos.graph.plan import Plan, plan_program
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.kernels.launch import Launch, Profile
from hierarchos.kernels.optimizer import BLOCK
from hierarchos.nn.weights import Weights
from hierarchos.training.graphs import DECAY_GROUPS, FIRST, GRADIENTS, PARAMETERS, SECOND, Update, store_gradients, trace_update
from pipelines.bench.workloads import WORKLOADS, Workload
from validation.command import exit_with

H200 = Profile("gpu", subgroup=32, shared_bytes=49152, compute_units=132, chunk_bytes=256 << 20)


@dataclass(frozen=True)
class Floors:
    """Of one step: operations, bytes, launches, bytes of the device that it needs."""

    operations: float
    moved: float
    launches: int
    peak: int


def planned(workload: Workload) -> tuple[Plan, int]:
    """The plan of a training step on an H200, and the floats of its parameters."""
    with tracing(Graph()):
        w = Weights()
        workload.trace(w)
    layout = StoreLayout()
    layout.allocate(PARAMETERS, {spec.name: Spec(spec.shape) for spec in w.specs})
    for arena in (GRADIENTS, FIRST, SECOND):
        layout.mirror(arena, PARAMETERS)
    floats = layout.find(PARAMETERS).spec.size
    layout.allocate("decay", {DECAY_GROUPS: Spec((floats // BLOCK,), "u32")})
    with tracing(Graph()) as graph:
        w = Weights()
        graph.outputs["loss"] = workload.trace(w)
        store_gradients(graph.outputs["loss"], w)
        trace_update(Update(floats))
    return plan_program(graph, H200, layout), floats


def floors(workload: Workload) -> Floors:
    plan, floats = planned(workload)
    launches = [item for lowering in plan.placement.lowerings.values() for item in lowering.launches if isinstance(item, Launch)]
    operations = sum(item.operations for item in launches if item.label.startswith(("gemm", "attention")))
    return Floors(operations, 4.0 * floats * (2 + 1 + 7) + 2.0 * plan.activations, len(launches), plan.peak_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[name for name, workload in WORKLOADS.items() if workload.trains])
    parser.add_argument("--tflops", type=float, default=51.0, help="rate of fp32 operations; default: cuBLAS on an H200")
    parser.add_argument("--bandwidth", type=float, default=4.3, help="TB/s; default: a copy on an H200")
    options = parser.parse_args()
    print("| workload | GFLOP | GB | floor of operations, ms | floor of bytes, ms | launches | peak, MiB |")
    print("| --- " * 7 + "|")
    for name in options.names:
        found = floors(WORKLOADS[name])
        print(f"| {name} | {found.operations / 1e9:.1f} | {found.moved / 1e9:.2f} | {found.operations / options.tflops / 1e9:.2f} | "
              f"{found.moved / options.bandwidth / 1e9:.2f} | {found.launches} | {found.peak / 2**20:.0f} |")


if __name__ == "__main__":
    exit_with(main)
