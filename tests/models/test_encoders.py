"""What every encoder promises besides its numbers: it sees both sides, documents in one row and padding do not matter."""
import numpy as np
import pytest

from hierarchos.models.registry import FAMILIES, family, resolve
from tests.models import twin
from tests.models.test_forward import test_documents_in_one_row_do_not_see_each_other as documents_are_apart
from tests.models.test_forward import test_padding_changes_nothing as padding_changes_nothing
from tests.models.twin import model_and_values, run_logits
from validation.tiny import table, variants

ENCODERS = {f"{tiny.model_type} {tiny.name}": tiny.raw for name in table() if name in FAMILIES and family(name).task == "masked"
            for tiny in variants(name) if resolve(tiny.raw).task == "masked"}


def test_all_encoders_are_here():
    assert len({name.split()[0] for name in ENCODERS}) == 23       # bert-generation and modernbert-decoder count as causal


@pytest.mark.parametrize("name", ENCODERS)
def test_both_sides_packing_and_padding(name, monkeypatch):
    monkeypatch.setitem(twin.CONFIGS, name, ENCODERS[name])
    model, values = model_and_values(name)
    ids = np.random.default_rng(7).integers(6, 41, (1, 7))
    changed = np.concatenate([ids[:, :-1], (ids[:, -1:] + 1) % 41], axis=1)
    assert np.abs(run_logits(model, values, ids) - run_logits(model, values, changed))[:, 3].max() > 1e-6

    documents_are_apart(name)
    padding_changes_nothing(name, "left")


def test_a_decoder_made_of_an_encoder_is_causal():
    raw = ENCODERS["bert base"]
    assert (resolve(raw).task, resolve({**raw, "is_decoder": True}).task) == ("masked", "causal")
    assert resolve({**raw, "model_type": "bert-generation"}).task == "masked"


@pytest.mark.parametrize("name", ["roberta", "camembert", "xlm-roberta", "data2vec-text", "roberta-prelayernorm", "xlm-roberta-xl", "esm"])
@pytest.mark.parametrize("padding", ["left", "right"])
def test_positions_are_those_that_the_reference_counts_from_ids(name, padding):
    """Given no positions, the reference counts tokens that are not padding; ours come with the batch."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from validation import reference
    from validation.tiny import batch

    tiny = variants(name)[-1]
    arrays, model = batch(tiny, 9, padding), reference.build(tiny)
    arrays["ids"] = np.where(arrays["segments"] > 0, arrays["ids"], model.config.pad_token_id)
    inputs = reference.inputs(model, arrays)
    counted = model(**{key: value for key, value in inputs.items() if key != "position_ids"}).logits
    assert torch.equal(model(**inputs).logits[arrays["segments"] > 0], counted[arrays["segments"] > 0])


def test_esm_rescales_by_the_share_of_masked_tokens():
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from validation import reference
    from validation.tiny import batch

    tiny = variants("esm")[0]
    arrays, model = batch(tiny, 11, "right"), reference.build(tiny)
    arrays["ids"][0, [2, 5]] = arrays["ids"][1, 3] = tiny.config["mask_token_id"]
    with torch.no_grad(), reference.ExactTables():
        theirs = model(**reference.inputs(model, arrays)).logits.numpy()
    ours = run_logits(resolve(tiny.raw), reference.values(model), arrays["ids"], arrays["segments"], arrays["positions"])
    seen = arrays["segments"] > 0
    np.testing.assert_allclose(ours[seen], theirs[seen], rtol=1e-10, atol=1e-10)
