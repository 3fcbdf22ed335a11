"""Stores and programs in NumPy memory, and a tokenizer of letters: what the tests of generation run on without a device."""

from __future__ import annotations

import numpy as np

from hierarchos.generation.generator import Generator
from hierarchos.generation.policy import Policy
from hierarchos.graph.evaluate import evaluate
from hierarchos.graph.tensor import NUMPY_NAME
from tests.models.twin import model_and_values, run_logits


class TwinStore:
    """A store in NumPy memory."""

    def __init__(self, values):
        self.memory = dict(values)

    def allocate(self, arena, specs):
        self.memory |= {
            name: np.zeros(spec.shape, np.float64 if spec.dtype == "f32" else NUMPY_NAME[spec.dtype]) for name, spec in specs.items()
        }

    def write(self, name, array):
        self.memory[name][...] = array

    def zero(self, name):
        self.memory[name][...] = 0

    def free(self, arena):
        self.memory = {name: value for name, value in self.memory.items() if not name.startswith(arena + "/")}


class TwinProgram:
    """Runs a graph with the NumPy twins, in float64 unless told otherwise."""

    dtype = "float64"

    def __init__(self, graph, store):
        self.graph, self.store, self.kept = graph, store, {}

    def run(self, feeds):
        return evaluate(self.graph, feeds, self.store.memory, self.dtype)[0]

    def submit_again(self):
        self.kept[len(self.kept)] = self.run({})
        return len(self.kept) - 1

    def read(self, value, name):
        return self.kept[value][name]

    def close(self):
        pass


class Letters:
    """A tokenizer of the letters a-z; ids above them are written as capital letters."""

    adds_bos, bos_id, eos_id = False, None, None

    def encode(self, text):
        return [ord(letter) - 97 for letter in text]

    def decode(self, ids):
        return "".join(chr(97 + number) if number < 26 else chr(39 + number) for number in ids)


def generator(name="llama", **policy):
    """(model, values, a generator of it in NumPy memory)."""
    model, values = model_and_values(name)
    return model, values, Generator(model, Letters(), TwinStore(values), Policy(**policy), compile=TwinProgram)


def greedy(model, values, ids, count):
    """The likeliest continuation, from the logits of whole prefixes."""
    for _ in range(count):
        ids = [*ids, int(np.argmax(run_logits(model, values, [ids])[0, -1]))]
    return ids[-count:]
