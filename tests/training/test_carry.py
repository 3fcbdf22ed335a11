"""Scalars and vectors keep what AdamW's rounding leaves off, in the state of a run and in its checkpoints."""
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hierarchos.kernels.optimizer import BLOCK, GROUP_CODES
from hierarchos.models.registry import resolve
from hierarchos.training.graphs import CARRY, DECAY_GROUPS
from hierarchos.training.state import TrainingState
from validation.parity.engine import Optimizer

CONFIG = {"model_type": "qwen2", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 32, "tie_word_embeddings": False}


@pytest.fixture
def state(device):
    made = TrainingState(resolve(CONFIG), device, Optimizer())
    yield made
    for arena in list(made.store.allocations):
        made.store.free(arena)


def carries(state):
    return [name for name, _ in state.entries() if name.startswith(f"{CARRY}/")]


def test_each_vector_has_a_place_and_no_matrix_has(state):
    vectors = [spec for spec in state.specs if len(spec.shape) < 2]
    assert carries(state) == [f"{CARRY}/{spec.name}" for spec in vectors] and len(vectors) == 2 * 5 + 1
    layout, groups, found = state.store.layout, state.store.read(DECAY_GROUPS), {}
    for spec in state.specs:
        blocks = groups[layout.find(spec.name).offset // (4 * BLOCK):][:-(-spec.size // BLOCK)]
        found[spec.name] = [int(code) // GROUP_CODES - 1 for code in blocks]
    assert all(found[spec.name] == [-1] * len(found[spec.name]) for spec in state.specs if spec not in vectors)
    assert sorted(block for spec in vectors for block in found[spec.name]) == list(range(layout.find(CARRY).spec.size // BLOCK))
    assert all(found[spec.name][0] * 4 * BLOCK == layout.find(f"{CARRY}/{spec.name}").offset for spec in vectors)


def test_sgd_carries_nothing(device):
    state = TrainingState(resolve(CONFIG), device, Optimizer(name="sgd"))
    assert not carries(state) and CARRY not in state.store.layout.arenas
    assert state.store.read(DECAY_GROUPS).max() < GROUP_CODES


def test_a_checkpoint_holds_it_and_one_from_before_it_is_read(state, tmp_path):
    name = carries(state)[0]
    shape = state.store.layout.find(name).spec.shape
    state.store.write(name, np.full(shape, 1e-9, np.float32))
    state.save(tmp_path / "new.safetensors")
    tensors = load_file(tmp_path / "new.safetensors")
    assert (tensors[name] == np.float32(1e-9)).all()
    save_file({key: value for key, value in tensors.items() if not key.startswith(CARRY)}, tmp_path / "old.safetensors")
    state.restore(tmp_path / "old.safetensors")
    assert not state.store.read(name).any()
    state.restore(tmp_path / "new.safetensors")
    assert (state.store.read(name) == np.float32(1e-9)).all()
