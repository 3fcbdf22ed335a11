"""A folder of results to take along: values keep their bits, what is not there or came out differently is refused."""
import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from hierarchos.errors import UserError
from validation.parity import portable
from validation.parity.cases import batch_arrays, cases_of
from validation.parity.expected import Errors, Expected
from validation.parity.gates import SETTINGS, Noise
from validation.parity.truth import exact_results


def test_values_keep_their_bits():
    array = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    assert np.array_equal(portable.restored(portable.shuffled(array), (3, 5)), array)


def test_a_folder_that_was_not_written_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"cases\.json\.gz"):
        portable.Portable(tmp_path)


@pytest.fixture(scope="module")
def case():
    return cases_of("arcee")[0]


@pytest.fixture(scope="module")
def expected(case):
    """As Transformers would say it, had it been asked: here the twins themselves."""
    from hierarchos.models.registry import resolve
    from hierarchos.nn.initialise import initial_value

    model, arrays = resolve(case.tiny.raw), batch_arrays(case, case.config["vocab_size"])
    values = {spec.name: initial_value(spec, 0) for spec in model.parameters}
    none, noise = dict.fromkeys(values, 1e-8), dict.fromkeys(values, Noise(1e-8, 1e-8, 1.0))
    return Expected(case.tiny.raw, values, arrays, exact_results(model, values, arrays),
                    Errors(1e-8, 1e-8, none, {setting: none for setting in SETTINGS[:2]}), noise)


def written(folder, entry: dict, expected: Expected) -> portable.Portable:
    (folder / portable.CASES_FILE).write_bytes(gzip.compress(json.dumps([entry]).encode()))
    np.savez_compressed(folder / portable.VALUES_FILE, **{portable.digest_of(v): portable.shuffled(v) for v in expected.values.values()})
    return portable.Portable(folder)


def test_what_was_written_comes_back(case, expected, tmp_path):
    found = written(tmp_path, portable.entry_of(case, expected), expected).expected(case)
    assert found.values.keys() == expected.values.keys() and vars(found.errors) == vars(expected.errors)
    assert np.array_equal(found.truth.logits, expected.truth.logits)


def test_another_truth_is_noticed(case, expected, tmp_path):
    entry = portable.entry_of(case, expected)
    entry["sums"][0] += 1e-6
    with pytest.raises(UserError, match="came out differently"):
        written(tmp_path, entry, expected).expected(case)


def test_a_truth_far_from_transformers_is_left_out(case, expected):
    wrong = SimpleNamespace(**{**vars(expected), "truth": SimpleNamespace(**{**vars(expected.truth), "loss": expected.truth.loss + 1e-6})})
    with pytest.raises(ValueError, match="loss"):
        portable.entry_of(case, wrong)
