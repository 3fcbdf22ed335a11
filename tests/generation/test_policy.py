"""Options of generation: where they come from, what is refused and how."""

import json

import pytest

from hierarchos.errors import UserError
from hierarchos.generation.policy import Policy, package_policy, policy_from


def package(folder, generation=None, **config):
    (folder / "config.json").write_text(json.dumps(config))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


@pytest.mark.parametrize(("found", "expected"), [(7, (7,)), ([1, 2], (1, 2)), (None, (5,))])
def test_stop_tokens_come_from_the_package(tmp_path, found, expected):
    assert package_policy(package(tmp_path, {"eos_token_id": found}, eos_token_id=5)).eos_token_id == expected


def test_precedence_is_package_then_what_is_given(tmp_path):
    folder = package(tmp_path, {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "transformers_version": "4.40"}, eos_token_id=5)
    policy = policy_from({"temperature": 0.2, "top_p": None}, "command line", package_policy(folder))
    assert (policy.do_sample, policy.temperature, policy.top_p, policy.top_k, policy.eos_token_id) == (True, 0.2, 0.9, 50, (5,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beam_groups": 2}, "num_beam_groups is not implemented: group beam search"),
        ({"guidance_scale": 1.5}, "guidance_scale is not implemented: classifier-free guidance"),
        ({"temprature": 0.5}, "temprature is not an option of generation"),
        ({"top_k": "many"}, "top_k is 'many'; it is a whole number"),
        ({"do_sample": 1}, "do_sample is 1; it is true or false"),
        ({"eos_token_id": "</s>"}, "eos_token_id is '</s>', which is not what it takes"),
        ({"temperature": 0.0}, "temperature is 0.0; it can be above 0"),
        ({"top_p": 1.5}, "top_p is 1.5; it can be above 0"),
        ({"num_return_sequences": 2}, "num_return_sequences is 2; greedy search has one result"),
        ({"num_beams": 2, "num_return_sequences": 3}, "num_return_sequences is 3; 2 beams have 2 results"),
        ({"penalty_alpha": 0.6, "top_k": 4, "do_sample": True}, "penalty_alpha asks for contrastive search"),
        ({"early_stopping": "maybe"}, "early_stopping is maybe; it can be true, false or never"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(options, message):
    with pytest.raises(UserError, match=message):
        policy_from(options, "generation_config.json")


def test_what_is_switched_off_is_no_reason_to_refuse():
    assert policy_from({"num_beam_groups": 1, "diversity_penalty": 0.0, "guidance_scale": None, "use_cache": True}, "here") == Policy()


@pytest.mark.parametrize(
    ("policy", "alone"),
    [
        ({}, True),
        ({"do_sample": True, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.9, "eta_cutoff": 1e-3}, True),
        ({"repetition_penalty": 1.2}, True),
        ({"num_beams": 2}, False),
        ({"min_length": 3}, False),
        ({"suppress_tokens": (3,)}, False),
        ({"penalty_alpha": 0.6}, False),
        ({"stop_strings": ("x",), "max_time": 3.0}, True),
    ],
)
def test_which_policies_the_device_follows_alone(policy, alone):
    assert Policy(**policy).on_device is alone
