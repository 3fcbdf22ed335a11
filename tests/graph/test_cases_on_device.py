"""Every operation and its derivative, compiled for the device, against the NumPy twins in float64."""
import numpy as np
import pytest

from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.program import compile_program
from tests.graph.cases import CASES, feeds_of, traced

ERROR = 4e-6                                        # of the largest value: some 30 roundings of fp32; the kernels' own tests are tighter


@pytest.mark.parametrize("case", CASES)
def test_device_equals_float64(device, case):
    graph = traced(*CASES[case], True)
    feeds = feeds_of(case)
    program = compile_program(graph, device)
    results, truth = program.run(feeds), evaluate(graph, feeds, dtype="float64")[0]
    for name, array in truth.items():
        error = np.abs(results[name] - array).max()
        assert error <= ERROR * max(1.0, np.abs(array).max()), f"{case} {name}: error {error}"
    again = program.run(feeds)
    assert all(again[name].tobytes() == results[name].tobytes() for name in results)
    program.close()
