"""Which modules a configuration means."""
from __future__ import annotations

import pytest

from hierarchos.errors import UserError
from hierarchos.models.registry import resolve, tiny_config
from hierarchos.peft.adapted import adapted
from hierarchos.peft.config import LoraConfig
from hierarchos.peft.select import plan_of, with_percent
from hierarchos.peft.sites import sites_of


@pytest.fixture(scope="module")
def sites():
    return sites_of(resolve(tiny_config("llama_tiny")))


def chosen(sites, **settings):
    return [name.removeprefix("model.layers.") for name in plan_of(LoraConfig(**settings), sites).loras]


def test_all_linear_is_every_projection_but_the_head(sites):
    assert len(chosen(sites)) == 4 * 7 and "lm_head" not in chosen(sites)


def test_names_and_ends_of_names(sites):
    assert chosen(sites, target_modules=("q_proj",)) == [f"{n}.self_attn.q_proj" for n in range(4)]
    assert chosen(sites, target_modules=("layers.1.self_attn.v_proj", "2.mlp.up_proj")) == ["1.self_attn.v_proj", "2.mlp.up_proj"]


def test_an_expression_matches_whole_names(sites):
    expected = [f"{n}.mlp.{p}_proj" for n in (0, 3) for p in ("gate", "up", "down")]
    assert chosen(sites, target_modules=r"model\.layers\.[03]\.mlp\..*") == expected


def test_layers_and_exclusions(sites):
    found = chosen(sites, target_modules=("q_proj", "k_proj"), layers_to_transform=(1, 3), exclude_modules=("layers.3.self_attn.k_proj",))
    assert found == ["1.self_attn.q_proj", "1.self_attn.k_proj", "3.self_attn.q_proj"]


def test_ranks_and_alphas_by_pattern(sites):
    plan = plan_of(LoraConfig(r=4, lora_alpha=8, rank_pattern={"down_proj": 2}, alpha_pattern={"down_proj": 6}), sites)
    found = {name.rpartition(".")[2]: (lora.rank, lora.scale) for name, lora in plan.loras.items()}
    assert found["down_proj"] == (2, 3.0) and found["up_proj"] == (4, 2.0)


@pytest.mark.parametrize(("settings", "what", "near"), [
    ({"target_modules": ("q_prj",)}, "no module is called q_prj", "q_proj"),
    ({"target_modules": ("attention",)}, "no module is called attention", None),
    ({"target_modules": r".*\.c_attn"}, r"no module matches the expression '.*\\.c_attn'", None),
    ({"target_modules": r"(q_proj"}, r"'(q_proj' is not a regular expression: missing ), unterminated subpattern at position 0", None),
    ({"modules_to_save": ("lm_haed",)}, "no module is called lm_haed", "lm_head"),
    ({"exclude_modules": ("k_pro",)}, "no module is called k_pro", "k_proj"),
    ({"layers_to_transform": (1, 9)}, "layer 9 is not there: the model's targeted layers are 0 to 3", None),
    ({"trainable_token_indices": {"embed_tokens": (99999,)}}, "token 99999 is not there: model.embed_tokens has 2048 rows", None),
    ({"target_modules": ("norm",)}, "model.norm is a norm; LoRA goes on linear layers, embeddings and the head", None),
])
def test_what_matches_nothing_is_an_error(sites, settings, what, near):
    with pytest.raises(UserError) as caught:
        plan_of(LoraConfig(**settings), sites)
    assert (caught.value.what, caught.value.nearest) == (what, near)


def test_the_largest_rank_within_a_share_of_the_parameters():
    model = resolve(tiny_config("llama_tiny"))
    found = with_percent(LoraConfig(), sites_of(model), model.size, 2.0)
    sizes = [sum(spec.size for spec in adapted(model, LoraConfig(r=r)).trained) for r in (found.r, found.r + 1)]
    assert sizes[0] <= 0.02 * model.size < sizes[1] and found.lora_alpha == 2 * found.r


def test_encoders_and_conv1d_have_targets_too():
    for name in ("gpt2_tiny", "bert_tiny", "phi3_tiny", "bloom_tiny"):
        assert plan_of(LoraConfig(), sites_of(resolve(tiny_config(name)))).loras
