"""Hidden tokens: how many, which never, what stands there instead, whole words, and the same at every time."""
import numpy as np
import pytest

from hierarchos.data.batches import BatchStream
from hierarchos.data.masking import MaskedStream, Masking, Vocabulary, word_numbers
from hierarchos.data.options import BatchOptions
from hierarchos.data.token_file import TokenFile
from hierarchos.data.tokenizer_training import train_tokenizer
from hierarchos.errors import UserError

SIZE, MASK, SPECIAL = 500, 1, 3
VOCABULARY = Vocabulary(MASK, SIZE, np.arange(SIZE) < SPECIAL, np.arange(SIZE) % 3 == 0)


def streams(masking=Masking(), rows=64, length=128, **options):  # noqa: B008
    generator = np.random.default_rng(1)
    lengths = generator.integers(20, 200, 100)
    ids = generator.integers(0, SIZE, lengths.sum()).astype(np.int32)
    file = TokenFile(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), np.ones(len(ids), np.uint8), None)
    options = BatchOptions(batch_size=rows, sequence_length=length, seed=5, **options)
    return BatchStream(file, options), MaskedStream(file, options, VOCABULARY, masking)


@pytest.mark.parametrize("whole_words", [False, True])
def test_fifteen_in_a_hundred_are_predicted_and_eight_of_ten_of_them_are_hidden(whole_words):
    plain, masked = streams(Masking(whole_words=whole_words))
    before, after = plain.batch(0), masked.batch(0)
    chosen = after["targets"] >= 0
    free = (before["segments"] > 0) & (before["ids"] >= SPECIAL)
    assert not (chosen & ~free).any()
    assert np.array_equal(after["targets"][chosen], before["ids"][chosen])
    assert np.array_equal(after["ids"][~chosen], before["ids"][~chosen])
    assert np.array_equal(after["token_weights"] > 0, chosen)
    assert after.trained_tokens == after.weight_sum == chosen.sum()
    assert chosen.sum() / free.sum() == pytest.approx(0.15, abs=0.02)
    hidden, same = (after["ids"] == MASK)[chosen].mean(), (after["ids"] == before["ids"])[chosen].mean()
    assert (hidden, same) == (pytest.approx(0.8, abs=0.04), pytest.approx(0.1, abs=0.04))


def test_words_are_hidden_whole():
    plain, masked = streams(Masking(whole_words=True))
    before, after = plain.batch(0), masked.batch(0)
    words, chosen = word_numbers(before["ids"], before["segments"], VOCABULARY), after["targets"] >= 0
    free = (before["segments"] > 0) & (before["ids"] >= SPECIAL)
    for word in np.unique(words[chosen]):
        assert chosen[(words == word) & free].all()


def test_a_step_hides_the_same_at_every_time_and_others_hide_others():
    _, masked = streams(rows=4)
    again = streams(rows=4)[1]
    assert all(np.array_equal(masked.batch(3)[name], again.batch(3)[name]) for name in ("ids", "targets"))
    count = len(masked)
    unshuffled = streams(rows=4, shuffle=False)[1]
    assert not np.array_equal(unshuffled.batch(0)["targets"], unshuffled.batch(count)["targets"])       # another epoch, the same rows


def test_there_is_always_something_to_predict():
    _, masked = streams(Masking(share=0.0), rows=1, length=8)
    assert all(masked.batch(step).trained_tokens >= 1 for step in range(20))


def test_tokenizers_say_where_words_begin():
    tokenizer = train_tokenizer(["the cat and the dog and the other cat"] * 20, 300, mask=True)
    vocabulary = Vocabulary.of(tokenizer)
    ids = tokenizer.encode("the cat and")
    assert [tokenizer.decode([number]) for number in ids if vocabulary.starts[number]][-2:] == [" cat", " and"]
    assert vocabulary.special[vocabulary.mask]
    with pytest.raises(UserError, match="no mask token"):
        Vocabulary.of(train_tokenizer(["the cat"], 300))
