"""The generator: batches equal single prompts, stop tokens and strings end rows, requests that do not fit are refused."""

import pytest

from hierarchos.errors import UserError
from hierarchos.generation.policy import Policy
from tests.generation.twins import Letters, generator, greedy


def test_a_batch_gives_what_each_prompt_gives_alone():
    model, values, maker = generator()
    for result in maker.generate(["hello", "a", "prompts"], Policy(max_new_tokens=6)):
        assert list(result.ids) == greedy(model, values, Letters().encode(result.prompt), 6)
        assert result.stopped == "length"


def test_the_host_path_gives_the_same_tokens():
    _, _, maker = generator()
    device, host = (maker.generate(["hello", "a"], Policy(max_new_tokens=6, **more)) for more in ({}, {"suppress_tokens": (40,)}))
    assert [r.ids for r in device] == [r.ids for r in host]
    settings = {"do_sample": True, "temperature": 1.5, "top_k": 0, "seed": 3, "max_new_tokens": 6}
    device, host = (maker.generate(["hello", "a"], Policy(**settings, **more)) for more in ({}, {"sequence_bias": (((40,), 0.0),)}))
    assert [r.ids for r in device] == [r.ids for r in host]


def test_a_stop_token_ends_its_row_only():
    model, values, _ = generator()
    expected = greedy(model, values, Letters().encode("hello"), 6)
    _, _, maker = generator(eos_token_id=(expected[3], 40))
    first, _ = maker.generate(["hello", "abc"], Policy(max_new_tokens=6, eos_token_id=(expected[3], 40)))
    cut = expected.index(expected[3])
    assert (list(first.ids), first.stopped) == (expected[:cut], "end")


def test_a_stop_string_ends_its_row_after_it():
    _, _, maker = generator()
    [whole] = maker.generate(["hello"], Policy(max_new_tokens=8))
    stop = whole.text[2:4]
    [cut] = maker.generate(["hello"], Policy(max_new_tokens=8, stop_strings=(stop,)))
    assert (cut.text, cut.stopped) == (whole.text[: whole.text.index(stop) + 2], "stop string")


def test_time_ends_a_text():
    _, _, maker = generator()
    [result] = maker.generate(["hello"], Policy(max_new_tokens=8, max_time=1e-9))
    assert (len(result.ids), result.stopped) == (1, "time")


def test_sampling_repeats_with_its_seed():
    _, _, maker = generator()
    settings = {"do_sample": True, "top_k": 10, "max_new_tokens": 8}
    assert maker.generate(["abc"], Policy(**settings, seed=4)) == maker.generate(["abc"], Policy(**settings, seed=4))
    assert maker.generate(["abc"], Policy(**settings, seed=4)) != maker.generate(["abc"], Policy(**settings, seed=5))


def test_several_samples_of_one_prompt_differ():
    _, _, maker = generator()
    results = maker.generate(["abc", "de"], Policy(do_sample=True, temperature=3.0, top_k=0, max_new_tokens=8, num_return_sequences=3))
    assert [r.prompt for r in results] == ["abc"] * 3 + ["de"] * 3 and len({r.ids for r in results[:3]}) == 3


def test_tokens_come_as_they_are_chosen():
    seen = []
    _, _, maker = generator()
    results = maker.generate(["abc", "hello"], Policy(max_new_tokens=3), on_token=lambda row, token: seen.append((row, token)))
    assert seen == [(row, results[row].ids[step]) for step in range(3) for row in (0, 1)]


@pytest.mark.parametrize(
    ("prompts", "policy", "message"),
    [
        ([], {}, "there is no prompt"),
        ([""], {}, "prompt 1 is empty"),
        (["abc"], {"max_new_tokens": 62}, "need 65 positions; the model has 64"),
        (["abcd"], {"max_length": 4}, "a prompt of 4 tokens leaves none of max_length 4"),
        (["~~~~~~~~\u00ff"], {"max_new_tokens": 4}, "the tokenizer gives id 158"),
    ],
)
def test_requests_that_do_not_fit_are_refused(prompts, policy, message):
    with pytest.raises(UserError, match=message):
        generator()[2].generate(prompts, Policy(**policy))


def test_damaged_weights_stop_the_generation():
    _, values, maker = generator()
    values["model.norm.weight"][0] = float("nan")
    with pytest.raises(UserError, match="the logits of row 0 at position 3 are not finite"):
        maker.generate(["abc"], Policy(max_new_tokens=4))
