"""New models start from the distributions of Transformers: the same constants, and normal values of the same spread and shape."""
import importlib

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from hierarchos.models.registry import FAMILIES, resolve
from validation.names import named_parameters
from validation.tiny import table, variants

# Open-LLaMA is not in the reference any more; its stand-in has the computation, not Xavier's spread of the embedding.
VARIANTS = [tiny for model_type in table() if model_type in FAMILIES and model_type != "open-llama" for tiny in variants(model_type)]
SIGMAS = 6.0        # of a sample's spread; thousands of parameters are compared


def fresh(tiny):
    """The reference's model as it is made, and which row of an embedding it holds at zero."""
    import torch
    import transformers

    config = transformers.CONFIG_MAPPING[tiny.model_type](**tiny.config)
    torch.manual_seed(1)
    if tiny.auto:
        return getattr(transformers, tiny.auto).from_config(config)
    module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    return getattr(module, tiny.class_name)._from_config(config)


def sample(values: np.ndarray) -> np.ndarray:
    """The values without rows of zeros (the padding token's, in the reference)."""
    rows = values.reshape(len(values), -1) if values.ndim > 1 else values
    kept = rows[np.any(rows != 0, axis=1)] if values.ndim > 1 else rows
    return kept.astype(np.float64).ravel()


def assert_alike(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    """Constants are equal; otherwise mean, spread and the share within one spread agree as far as samples can tell."""
    assert ours.shape == theirs.shape, name
    if np.ptp(theirs) == 0 or np.ptp(ours) == 0:
        assert np.allclose(ours, theirs, rtol=1e-6, atol=0.0), f"{name}: {ours.flat[0]} for {theirs.flat[0]}"
        return
    a, b = sample(ours), sample(theirs)
    spread, error = b.std(), (1 / len(a) + 1 / len(b)) ** 0.5
    assert abs(a.mean() - b.mean()) < SIGMAS * spread * error, f"{name}: mean {a.mean():.4g} for {b.mean():.4g}"
    assert abs(a.std() / spread - 1) < SIGMAS * error / 2 ** 0.5, f"{name}: spread {a.std():.4g} for {spread:.4g}"
    shares = [np.mean(abs(values - values.mean()) < values.std()) for values in (a, b)]
    assert abs(shares[0] - shares[1]) < SIGMAS * 0.5 * error, f"{name}: {shares[0]:.3f} within one spread for {shares[1]:.3f}"


@pytest.mark.parametrize("tiny", VARIANTS, ids=lambda tiny: f"{tiny.model_type}-{tiny.name}")
def test_initial_values_have_the_distributions_of_the_reference(tiny):
    theirs = {name: parameter.detach().numpy() for name, parameter in named_parameters(fresh(tiny))}
    ours = resolve(tiny.raw).initial_values(0)
    bare = not set(theirs) <= set(ours)
    for name, values in theirs.items():
        assert_alike(name, ours[f"model.{name}" if bare else name], values)
