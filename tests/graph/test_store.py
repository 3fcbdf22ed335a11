"""The store: offsets, mirrors, padding and hashes."""
import numpy as np
import pytest

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Spec

SPECS = {"a.weight": Spec((3, 5)), "a.bias": Spec((70,)), "ids": Spec((2,), "i32")}


def test_tensors_start_at_256_bytes_and_mirrors_have_the_same_offsets():
    layout = StoreLayout()
    layout.allocate("parameters", SPECS)
    layout.mirror("gradients", "parameters")
    assert [place.offset for place in layout.members("parameters").values()] == [0, 256, 768]
    assert layout.find("gradients/a.bias").offset == layout.find("a.bias").offset
    assert layout.find("gradients").spec == Spec((256,)) and layout.nbytes == 2048


def test_overlap_is_by_memory():
    layout = StoreLayout()
    layout.allocate("parameters", SPECS)
    layout.mirror("gradients", "parameters")
    assert layout.overlap("a.bias", "parameters") and not layout.overlap("a.bias", "a.weight")
    assert not layout.overlap("a.bias", "gradients")


def test_unknown_and_repeated_names_are_errors():
    layout = StoreLayout()
    layout.allocate("parameters", SPECS)
    with pytest.raises(KeyError, match=r"did you mean 'a\.bias'"):
        layout.find("a.bais")
    with pytest.raises(ValueError, match="has a tensor 'ids' already"):
        layout.allocate("other", {"ids": Spec((1,))})


def test_write_read_and_digest(device):
    store = StateStore(device)
    store.allocate("parameters", SPECS)
    values = np.arange(15, dtype="float32").reshape(3, 5)
    empty = store.digest()
    store.write("a.weight", values)
    np.testing.assert_array_equal(store.read("a.weight"), values)
    flat = store.read("parameters")
    assert flat[:15].tolist() == list(range(15)) and not flat[15:].any()
    assert store.digest() != empty
    store.zero("parameters")
    assert store.digest() == empty
    with pytest.raises(ValueError, match="nothing was written"):
        store.write("a.weight", values.T)
    store.free("parameters")
