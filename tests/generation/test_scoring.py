"""Scores of continuations, strided windows and choices are sums of log-probabilities of whole prefixes."""

import json
import sys
import types

import numpy as np
import pytest

from hierarchos.errors import UserError
from hierarchos.generation.choices import Question, judge, read_questions, split
from hierarchos.generation.lm_eval import over
from hierarchos.generation.scoring import Scorer, log_softmax, windows
from tests.generation.twins import Letters, TwinProgram, TwinStore, generator
from tests.models.twin import model_and_values, run_logits


def scorer():
    model, values = model_and_values("llama")
    return model, values, Scorer(model, TwinStore(values), TwinProgram)


def by_hand(model, values, ids, count):
    logs = log_softmax(run_logits(model, values, [ids[:-1]])[0])
    return sum(logs[len(ids) - 2 - back, ids[len(ids) - 1 - back]] for back in range(count))


def test_a_continuation_is_scored_behind_its_context():
    model, values, made = scorer()
    found = made.score([3, 7, 9], [1, 4])
    assert found.log_likelihood == pytest.approx(by_hand(model, values, [3, 7, 9, 1, 4], 2), abs=1e-10) and found.tokens == 2
    best = int(run_logits(model, values, [[3, 7, 9]])[0, -1].argmax())
    assert made.score([3, 7, 9], [best]).greedy and not found.greedy


def test_a_long_context_loses_its_beginning():
    model, values, made = scorer()
    ids = list(np.random.default_rng(0).integers(0, 41, 80))
    assert made.score(ids[:-2], ids[-2:]).log_likelihood == pytest.approx(by_hand(model, values, ids[-65:], 2), abs=1e-10)


@pytest.mark.parametrize(("length", "window", "stride"), [(20, 8, 4), (20, 8, 8), (7, 8, 4), (21, 8, 3), (2, 8, 4)])
def test_windows_score_every_token_but_the_first_once(length, window, stride):
    scored = [position for begin, end, count in windows(length, window, stride) for position in range(end - count, end)]
    assert scored == list(range(1, length))
    assert all(end - begin <= window for begin, end, _ in windows(length, window, stride))


def test_strided_perplexity_sees_the_tokens_before():
    model, values, made = scorer()
    ids = list(np.random.default_rng(1).integers(0, 41, 14))
    mean, count = made.perplexity(ids, 8, 4)
    expected = sum(by_hand(model, values, ids[begin:end], scored) for begin, end, scored in windows(14, 8, 4))
    assert (mean, count) == (pytest.approx(-expected / 13, abs=1e-10), 13)


def test_perplexity_is_that_of_transformers():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from validation.golden_generation import reference

    reference, ids, total = reference("llama"), list(np.random.default_rng(2).integers(0, 41, 30)), 0.0
    before = 0
    for begin in range(0, 30, 6):  # the loop of Transformers' page on perplexity, every token weighted alike
        end = min(begin + 16, 30)
        labels = torch.tensor([ids[begin:end]]).clone()
        labels[:, : -(end - before)] = -100
        with torch.no_grad():
            loss = reference(torch.tensor([ids[begin:end]]), labels=labels).loss
        total += float(loss) * int((labels[:, 1:] != -100).sum())
        before = end
        if end == 30:
            break
    assert scorer()[2].perplexity(ids, 16, 6)[0] == pytest.approx(total / 29, rel=1e-6)


def test_the_likeliest_choice_wins():
    _, _, made = scorer()
    question = Question("abc", ("de", "f", "ghij"), 0)
    verdict = judge(made, Letters(), question)
    sums = [made.score([0, 1, 2], Letters().encode(choice)).log_likelihood for choice in question.choices]
    assert verdict.best == int(np.argmax(sums)) and verdict.best_by_length == int(np.argmax(np.array(sums) / [2, 1, 4]))


def test_a_choice_is_what_it_adds_to_the_context():
    assert split(Letters(), "abc", "de") == ([0, 1, 2], [3, 4])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "the line is not JSON"),
        ('{"context": "a"}', "a question has context, choices, answer; this row has context"),
        ('{"context": "a", "choices": ["b"], "answer": 0}', "choices is not a list of two texts or more"),
        ('{"context": "a", "choices": ["b", "c"], "answer": 2}', "answer is 2; it is a number from 0 to 1"),
    ],
)
def test_questions_that_are_none_are_refused_with_their_line(tmp_path, line, message):
    good = json.dumps({"context": "a", "choices": ["b", "c"], "answer": 1})
    (tmp_path / "q.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(UserError, match=message) as caught:
        read_questions(tmp_path / "q.jsonl")
    assert caught.value.where.endswith("q.jsonl:2")


def test_the_harness_asks_and_is_answered(monkeypatch):
    module = types.ModuleType("lm_eval.api.model")
    module.LM = object
    for name, part in {
        "lm_eval": types.ModuleType("lm_eval"),
        "lm_eval.api": types.ModuleType("lm_eval.api"),
        "lm_eval.api.model": module,
    }.items():
        monkeypatch.setitem(sys.modules, name, part)
    model, values, maker = generator()
    harness, request = over(maker), types.SimpleNamespace
    [(log_likelihood, greedy)] = harness.loglikelihood([request(args=("abc", "de"))])
    assert log_likelihood == pytest.approx(by_hand(model, values, [0, 1, 2, 3, 4], 2), abs=1e-10) and greedy is False
    [text] = harness.generate_until([request(args=("abc", {"until": ["zz"], "max_gen_toks": 4}))])
    assert len(text) == 4


def test_without_the_harness_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(UserError, match="the package lm-eval is not installed"):
        over(generator()[2])
