"""Runs a graph with the NumPy twins: in float32 as a slow device, in float64 as the truth."""
from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from hierarchos.graph.layout import JOIN
from hierarchos.graph.ops.leaf import Input, State
from hierarchos.graph.tensor import NUMPY_NAME, Graph, Node, Tensor
from hierarchos.kernels.launch import Operand, row_major

if TYPE_CHECKING:
    import numpy as np


def evaluate(graph: Graph, feeds: Mapping, states: Mapping | None = None, dtype: str | None = None) -> tuple[dict, dict]:
    """Named outputs, and every state after the run.

    States are memory: a state that is written is written in place, later readers see it, and states given as views of one array
    (a tensor and its whole arena) see each other. With `dtype` None the given arrays themselves are written.
    Raises KeyError for a missing feed or state.
    """
    memory = {name: _as_float(array, dtype) for name, array in (states or {}).items()}
    values: dict[Tensor, np.ndarray] = {}
    for node in graph.nodes:
        results = _node_values(node, values, feeds, memory, dtype)
        for tensor, result in zip(node.outputs, results, strict=True):
            assert tuple(result.shape) == tensor.shape, f"{node.op}: reference gave {result.shape}, infer said {tensor.shape}"
            values[tensor] = result
        _write_back(node, values)
    return {name: values[tensor].copy() for name, tensor in graph.outputs.items()}, memory


def _node_values(node: Node, values: dict, feeds: Mapping, memory: dict, dtype: str | None) -> list:
    op = node.op
    if isinstance(op, Input | State):
        source = feeds[op.name] if isinstance(op, Input) else _state(memory, op.name)
        return [_shaped(_as_float(source, dtype), op)]
    if not node.inputs:
        return [_as_float(array, dtype) for array in op.reference([])]
    results = op.reference([values[t] for t in node.inputs])
    wanted = [dtype if dtype and spec.dtype in ("f32", "f16", "bf16") else NUMPY_NAME[spec.dtype] for spec in node.specs]
    return [_cast(array, name) for array, name in zip(results, wanted, strict=True)]


def _state(memory: dict, name: str):
    """A state, or neighbouring states as one array over their memory."""
    import numpy as np
    if JOIN not in name or name in memory:
        return memory[name]
    parts = [memory[part] for part in name.split(JOIN)]
    for before, after in pairwise(parts):
        if before.ctypes.data + before.nbytes != after.ctypes.data:
            raise ValueError(f"{name} is read as one tensor; give these states as views of one array, side by side")
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    return np.lib.stride_tricks.as_strided(parts[0], shape, parts[0].strides)


def _cast(array, name: str):
    import numpy as np
    return np.asarray(array).astype(name, copy=False)


def _as_float(array, dtype: str | None):
    """Floats in the wanted dtype; integers and arrays that have it already are passed through."""
    import numpy as np
    array = np.asarray(array)
    return array.astype(dtype, copy=False) if dtype and array.dtype.kind == "f" else array


def _shaped(array, op):
    if tuple(array.shape) != op.spec.shape:
        raise ValueError(f"{op.name}: the program was traced for shape {list(op.spec.shape)}, got {list(array.shape)}")
    return array


def _write_back(node: Node, values: dict) -> None:
    """Copies mutated outputs into the memory of the input that they alias, so that it behaves as on a device."""
    import numpy as np
    operands = [Operand(t.shape, t.dtype, row_major(t.shape)) for t in node.inputs]
    for slot, tensor in enumerate(node.outputs):
        alias = node.op.alias(slot, operands)
        if alias is not None and alias.mutates and alias.strides is None:       # with strides: `Joined` reads the parts
            target = values[node.inputs[alias.input]]
            np.copyto(target, values[tensor])
            values[tensor] = target
