"""Weight decay is declared by each architecture: matrices and embeddings are decayed, norms, biases and other vectors are not."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from hierarchos.models.registry import FAMILIES, resolve
from hierarchos.training.settings import decays
from validation.tiny import table, variants

CONFIGS = {name: {"model_type": name} | variants(name)[0].config for name in table() if name in FAMILIES}
# What the families call their norms: nothing of these may be decayed, whatever its shape.
NORM = re.compile(r"(norm|_ln|ln_\w+|\bln\w*|layer_?norm\w*)(\.\d+)?\.(weight|bias)$", re.IGNORECASE)

# What its trainer goes by, in names; the prefix of roberta_prelayernorm's own name is not meant by "layernorm".
NOT_DECAYED = [r"bias", r"(?<!pre)layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]


@dataclass(frozen=True)
class Rule:
    """The two settings that `decays` reads."""

    decay_vectors: bool = False
    no_decay: tuple[str, ...] = ()


@pytest.mark.parametrize("model_type", sorted(CONFIGS))
def test_matrices_are_decayed_and_norms_and_biases_are_not(model_type):
    specs = resolve(CONFIGS[model_type]).parameters
    for spec in (spec for spec in specs if spec.used):
        vector = len(spec.shape) < 2 or bool(NORM.search(spec.name)) or spec.name.endswith("bias")
        assert decays(spec, Rule()) is not vector, spec


def test_gpt2_norms_are_not_decayed_although_no_part_of_their_name_says_norm():
    specs = {spec.name: spec for spec in resolve(CONFIGS["gpt2"]).parameters}
    assert not decays(specs["transformer.h.0.ln_1.weight"], Rule())
    assert decays(specs["transformer.h.0.ln_1.weight"], Rule(decay_vectors=True))
    assert decays(specs["transformer.h.0.attn.c_attn.weight"], Rule())


def test_names_exclude_further_parameters_and_unused_ones_never_decay():
    spec = {spec.name: spec for spec in resolve(CONFIGS["llama"]).parameters}["model.embed_tokens.weight"]
    assert not decays(spec, Rule(no_decay=("EMBED",)))
    assert not decays(replace(spec, used=False), Rule(decay_vectors=True))


@pytest.mark.parametrize("model_type", sorted(CONFIGS))
def test_matrices_are_those_that_the_trainer_of_transformers_decays(model_type):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from torch import nn
    from transformers.trainer_pt_utils import get_parameter_names

    from validation import reference

    module = reference.build(variants(model_type)[0], double=False)
    theirs = set(get_parameter_names(module, [nn.LayerNorm], NOT_DECAYED))
    matrices = {name for name, parameter in module.named_parameters() if parameter.dim() > 1}
    specs = [spec for spec in resolve(CONFIGS[model_type]).parameters if spec.used and spec.name in matrices]
    assert specs
    assert {spec.name for spec in specs if decays(spec, Rule())} == {spec.name for spec in specs} & theirs
