"""The generator: batches equal single prompts, stop tokens end rows, requests that do not fit are refused."""
import json

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.generation.generator import Generator
from hierarchos.generation.sampling import Sampling
from hierarchos.generation.stop import stop_ids
from tests.generation.test_cache import TwinProgram, TwinStore
from tests.models.twin import model_and_values, run_logits


class Letters:
    """A tokenizer of the letters a-z."""

    adds_bos, bos_id, eos_id = False, None, None

    def encode(self, text):
        return [ord(letter) - 97 for letter in text]

    def decode(self, ids):
        return "".join(chr(97 + number) for number in ids)


def generator(stop=()):
    model, values = model_and_values("llama")
    return model, values, Generator(model, Letters(), TwinStore(values), frozenset(stop), compile=TwinProgram)


def greedy(model, values, ids, count):
    for _ in range(count):
        ids = [*ids, int(np.argmax(run_logits(model, values, [ids])[0, -1]))]
    return ids[-count:]


def test_a_batch_gives_what_each_prompt_gives_alone():
    model, values, maker = generator()
    results = maker.generate(["hello", "a", "prompts"], max_new_tokens=6)
    for result in results:
        assert list(result.ids) == greedy(model, values, Letters().encode(result.prompt), 6)
        assert result.stopped == "length"


def test_a_stop_token_ends_its_row_only():
    model, values, _ = generator()
    expected = greedy(model, values, Letters().encode("hello"), 6)
    _, _, maker = generator(stop=[expected[3]])
    first, _ = maker.generate(["hello", "abc"], max_new_tokens=6)
    cut = expected.index(expected[3])
    assert (list(first.ids), first.stopped) == (expected[:cut], "end")


def test_sampling_repeats_with_its_seed():
    _, _, maker = generator()
    settings = Sampling(temperature=1.0, top_k=10, seed=4)
    assert maker.generate(["abc"], 8, settings) == maker.generate(["abc"], 8, settings)
    assert maker.generate(["abc"], 8, settings) != maker.generate(["abc"], 8, Sampling(temperature=1.0, top_k=10, seed=5))


@pytest.mark.parametrize(("prompts", "count", "message"), [
    ([], 4, "there is no prompt"), ([""], 4, "prompt 1 is empty"), (["abc"], 0, "max_new_tokens is 0"),
    (["abc"], 62, "needs? 65 positions; the model has 64")])
def test_requests_that_do_not_fit_are_refused(prompts, count, message):
    with pytest.raises(UserError, match=message):
        generator()[2].generate(prompts, count)


@pytest.mark.parametrize(("found", "expected"), [(7, {7}), ([1, 2], {1, 2}), (None, {5})])
def test_stop_tokens_come_from_the_package(tmp_path, found, expected):
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 5}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": found}))
    assert stop_ids(tmp_path) == expected


def test_impossible_stop_tokens_are_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": "</s>"}))
    with pytest.raises(UserError, match="eos_token_id is '</s>'"):
        stop_ids(tmp_path)
