"""Rows and batches: every token predicted once, documents kept apart, any step at once, the same from the same seed."""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.data.batches import BatchStream, permutation
from hierarchos.data.options import BatchOptions
from hierarchos.data.packing import best_fit, plan_rows
from hierarchos.data.splitting import split_validation, unigram_entropy
from hierarchos.data.token_file import TokenFile
from hierarchos.errors import UserError


def token_file(lengths, weights=None):
    """Documents whose token ids say where they are: 1000 * document + position."""
    ids = np.concatenate([1000 * (document + 1) + np.arange(length) for document, length in enumerate(lengths)]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenFile(ids, offsets, np.ones(len(ids), np.uint8), weights)


lengths = st.lists(st.integers(1, 70), min_size=1, max_size=30).filter(lambda sizes: max(sizes) > 1)


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(1, 40), st.sampled_from(["pack", "pad"]), st.integers(1, 5), st.sampled_from(["row", "longest"]))
def test_every_token_but_the_first_of_a_document_is_predicted_once(sizes, sequence_length, layout, batch_size, pad_to):
    file = token_file(sizes)
    options = BatchOptions(batch_size=batch_size, sequence_length=sequence_length, layout=layout, pad_to=pad_to, pad_multiple=8)
    targets = np.concatenate([batch["targets"][batch["targets"] >= 0] for batch in BatchStream(file, options).epoch()])
    assert sorted(targets.tolist()) == sorted(file.ids[file.targets].tolist())


@settings(max_examples=60, deadline=None)
@given(lengths, st.integers(1, 40), st.sampled_from(["pack", "pad"]))
def test_segments_hold_one_document_with_positions_from_zero(sizes, sequence_length, layout):
    for batch in BatchStream(token_file(sizes), BatchOptions(batch_size=3, sequence_length=sequence_length, layout=layout)).epoch():
        used = batch["segments"] > 0
        assert (batch["targets"][used] == batch["ids"][used] + 1).all()
        assert (batch["targets"][~used] == -100).all() and (batch["token_weights"][~used] == 0).all()
        for row in range(3):
            for segment in range(1, batch["segments"][row].max() + 1):
                inside = batch["segments"][row] == segment
                assert batch["positions"][row][inside].tolist() == list(range(inside.sum()))
                assert len(set((batch["ids"][row][inside] // 1000).tolist())) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=60))
def test_best_fit_never_overfills_and_leaves_no_two_rows_that_fit_together(sizes):
    fill = np.bincount(best_fit(np.array(sizes), 16), weights=sizes)
    assert fill.max() <= 16 and (fill > 0).all()
    if len(fill) > 1:
        least = np.sort(fill)[:2]
        assert least.sum() > 16


def test_a_step_is_the_same_however_it_is_reached():
    file, options = token_file([9, 30, 5, 18, 44, 7]), BatchOptions(batch_size=2, sequence_length=8, seed=3)
    run = BatchStream(file, options).iterate()
    walked = [next(run) for _ in range(25)]
    for step in (24, 3, 11, 0):
        asked = BatchStream(file, options).batch(step)
        assert all((asked[name] == walked[step][name]).all() for name in asked)


def test_epochs_hold_the_same_rows_in_another_order():
    stream = BatchStream(token_file([50, 60, 70]), BatchOptions(batch_size=2, sequence_length=8, seed=1))
    first, second = ([stream.rows_of(e * len(stream) + i).tolist() for i in range(len(stream))] for e in (0, 1))
    assert first != second
    assert sorted(row for rows in first for row in rows) == list(range(len(stream.plan)))
    assert sorted(row for rows in second for row in rows) == list(range(len(stream.plan)))


def test_the_order_is_fixed_for_all_versions():
    written_down = [0, 9, 1, 6, 3, 5, 4, 2, 8, 7]
    assert permutation(10, seed=0, epoch=0).tolist() == written_down
    assert permutation(10, seed=0, epoch=1).tolist() != written_down
    assert permutation(10, seed=1, epoch=0).tolist() != written_down
    assert sorted(permutation(1000, seed=-5, epoch=7).tolist()) == list(range(1000))


def test_without_shuffling_rows_come_in_document_order():
    stream = BatchStream(token_file([9, 9, 9]), BatchOptions(batch_size=1, sequence_length=8, layout="pad", shuffle=False))
    assert [int(batch["ids"][0, 0]) for batch in stream.epoch()] == [1000, 2000, 3000]


def test_the_last_batch_keeps_its_shape_and_counts_its_tokens():
    stream = BatchStream(token_file([9, 9, 9]), BatchOptions(batch_size=2, sequence_length=8, layout="pad", shuffle=False))
    last = stream.batch(1)
    assert len(stream) == 2
    assert last["ids"].shape == (2, 8)
    assert (last["segments"][1] == 0).all()
    assert last.trained_tokens == 8 and last.weight_sum == 8


def test_arrays_have_the_promised_types():
    batch = BatchStream(token_file([9]), BatchOptions(batch_size=2, sequence_length=8)).batch(0)
    assert {name: (array.dtype.name, array.shape) for name, array in batch.items()} == {
        "ids": ("int32", (2, 8)),
        "targets": ("int32", (2, 8)),
        "positions": ("int32", (2, 8)),
        "segments": ("int32", (2, 8)),
        "token_weights": ("float32", (2, 8)),
    }


def test_loss_weights_reach_the_position_that_predicts_the_token():
    file = token_file([3], weights=np.array([1, 0.5, 2], np.float32))
    batch = BatchStream(file, BatchOptions(batch_size=1, sequence_length=4)).batch(0)
    assert batch["token_weights"].tolist() == [[0.5, 2, 0, 0]]
    assert batch.weight_sum == 2.5


def test_the_longest_batch_and_all_shapes_are_known_before_the_first_step():
    options = BatchOptions(batch_size=2, sequence_length=64, layout="pad", pad_to="longest", pad_multiple=16)
    stream = BatchStream(token_file([4, 8, 20, 40, 5, 6]), options)
    shapes = {batch["ids"].shape for step in range(3 * len(stream)) for batch in [stream.batch(step)]}
    assert stream.longest_batch()["ids"].shape == stream.shapes()[0] == (2, 48)
    assert shapes <= set(stream.shapes())


def test_pieces_that_train_nothing_are_left_out():
    file = token_file([20])
    trained = np.zeros(20, np.uint8)
    trained[18:] = 1
    plan = plan_rows(TokenFile(file.ids, file.offsets, trained), 8)
    assert (len(plan), plan.untrained_pieces) == (1, 2)


def test_nothing_to_predict_is_refused():
    with pytest.raises(UserError, match="there is no token to train"):
        BatchStream(token_file([1, 1]), BatchOptions())


def test_a_token_file_survives_the_disk_and_damage_is_noticed(tmp_path):
    file = token_file([5, 6], weights=np.linspace(0, 1, 11, dtype=np.float32))
    path = file.save(tmp_path / "tokens.safetensors")
    again = TokenFile.load(path)
    assert again.content_hash == file.content_hash
    assert again.meta["trained_tokens"] == 9
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="the token file is damaged"):
        TokenFile.load(path)
    path.write_bytes(content[:20])
    with pytest.raises(UserError, match="not a token file, or damaged"):
        TokenFile.load(path)
    with pytest.raises(UserError, match="the token file is not there"):
        TokenFile.load(tmp_path / "other.safetensors")


def test_validation_holds_out_whole_documents():
    file = token_file([10] * 100)
    training, validation = split_validation(file, 0.1, seed=4)
    assert (len(training), len(validation)) == (90, 10)
    assert not set(training.ids.tolist()) & set(validation.ids.tolist())
    assert split_validation(file, 0.1, seed=4)[1].ids.tolist() == validation.ids.tolist()
    assert split_validation(file, 0.1, seed=5)[1].ids.tolist() != validation.ids.tolist()


def test_validation_of_few_long_documents_is_their_ends():
    training, validation = split_validation(token_file([160, 320, 10]), 0.1)
    assert validation.lengths.tolist() == [16, 32]
    assert training.lengths.tolist() == [144, 288, 10]
    assert validation.ids[:16].tolist() == list(range(1144, 1160))


def test_validation_of_few_short_documents_is_some_of_them():
    training, validation = split_validation(token_file([36] * 40), 0.05)
    assert (len(training), len(validation)) == (38, 2)
    assert set(validation.lengths.tolist()) == {36}


def test_splits_that_cannot_be_made_say_what_helps():
    assert split_validation(token_file([10]), 0)[1] is None
    with pytest.raises(UserError, match=r"data\.validation_by=ends"):
        split_validation(token_file([10]), 0.5, by="documents")
    with pytest.raises(UserError, match="no document is long enough to hold out its end"):
        split_validation(token_file([10]), 0.1)
    with pytest.raises(UserError, match="did you mean  documents"):
        split_validation(token_file([10]), 0.1, by="document")


def test_the_unigram_entropy_is_that_of_the_predicted_tokens():
    ids = np.array([9, 1, 1, 2, 2], np.int32)
    assert unigram_entropy(TokenFile(ids, np.array([0, 5]), np.ones(5, np.uint8))) == pytest.approx(np.log(2))


def test_one_stream_of_ten_documents_packs_without_waste():
    plan = plan_rows(token_file([1000] * 10), 128)
    assert plan.row_lengths.sum() == 9990
    assert len(plan) == -(-9990 // 128) + 1  # 10 rests of 103 inputs cannot share rows of 128
