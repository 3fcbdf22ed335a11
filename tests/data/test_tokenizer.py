"""The own tokenizer: lossless, repeatable, and readable by Transformers; one BOS; vocabulary against embedding."""

import hashlib
import json
import subprocess
import sys

import pytest

from hierarchos.data.corpus import CORPUS, corpus_files
from hierarchos.data.tokenizer import TextTokenizer, check_vocabulary, load_tokenizer
from hierarchos.data.tokenizer_training import train_tokenizer
from hierarchos.errors import UserError

TEXTS = ["To be, or not to be, that is the question.\n" * 20, "Grüße 🙂\tand\n\nmore"]


def test_the_corpus_is_what_its_provenance_says():
    table = (CORPUS / "PROVENANCE.md").read_text(encoding="utf-8")
    files = corpus_files()
    assert len(files) == 13
    assert 500_000 < sum(file.stat().st_size for file in files) < 2_000_000
    for file in files:
        assert f"| {file.name} |" in table
        assert hashlib.sha256(file.read_bytes()).hexdigest() in table
        assert file.read_bytes().isascii()


def test_any_text_survives_encoding():
    tokenizer = train_tokenizer(TEXTS, 300)
    for text in (*TEXTS, "漢字 \u0000 ℵ", " leading", "trailing "):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_training_is_repeatable_across_processes():
    code = (
        "from hierarchos.data.tokenizer_training import train_tokenizer; from hierarchos.data.corpus import corpus_files;"
        "print(train_tokenizer([corpus_files()[4].read_text()], 700).fingerprint)"
    )
    command, environment = [sys.executable, "-c", code], {"PYTHONPATH": ":".join(sys.path)}
    prints = {subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(prints) == 1


def test_special_tokens_come_first_and_the_size_is_what_was_asked():
    tokenizer = train_tokenizer([corpus_files()[0].read_text()], 512, bos=True, chat=True)
    names = [tokenizer.core.id_to_token(number) for number in range(5)]
    assert names == ["<|endoftext|>", "<|pad|>", "<|startoftext|>", "<|im_start|>", "<|im_end|>"]
    assert (tokenizer.size, tokenizer.eos_id, tokenizer.pad_id, tokenizer.bos_id) == (512, 0, 1, 2)
    assert tokenizer.adds_bos and tokenizer.splits_exactly


def test_a_vocabulary_below_the_bytes_is_refused_with_the_least():
    with pytest.raises(UserError) as caught:
        train_tokenizer(TEXTS, 200)
    assert str(caught.value).splitlines() == [
        "tokenizer.vocab_size=200 is too small",
        "  256 bytes and 2 special tokens (<|endoftext|>, <|pad|>) are the least",
        "  try  tokenizer.vocab_size=258",
        "  nothing was started",
    ]


def test_what_is_saved_loads_here_with_the_same_ids(tmp_path):
    tokenizer = train_tokenizer(TEXTS, 300, bos=True)
    tokenizer.chat_template = "{{ messages }}"
    tokenizer.save(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.chat_template == "{{ messages }}"
    assert again.encode(TEXTS[1]) == tokenizer.encode(TEXTS[1])


def test_what_is_saved_loads_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = train_tokenizer(TEXTS, 300, bos=True)
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(TEXTS[1], add_special_tokens=False).input_ids == tokenizer.encode(TEXTS[1])
    assert theirs("a").input_ids == [tokenizer.bos_id, *tokenizer.encode("a")]
    assert (theirs.eos_token_id, theirs.pad_token_id) == (tokenizer.eos_id, tokenizer.pad_id)
    assert theirs.decode(theirs(TEXTS[0]).input_ids, skip_special_tokens=True) == TEXTS[0]


def test_a_vocabulary_larger_than_the_embedding_is_refused_with_numbers():
    tokenizer = train_tokenizer(TEXTS, 300)
    check_vocabulary(tokenizer, tokenizer.size)
    check_vocabulary(tokenizer, tokenizer.size + 64)
    with pytest.raises(UserError) as caught:
        check_vocabulary(tokenizer, 280)
    size = tokenizer.size
    assert str(caught.value).splitlines()[0] == f"the vocabulary of {size} is larger than the embedding of 280"
    assert f"the tokenizer's largest id is {size - 1}" in str(caught.value)
    assert f"try  model.config.vocab_size={size}" in str(caught.value)


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({}, "tokenizer.json is not there"),
        ({"vocab.json": "{}"}, "tokenizer.json is not there"),
        ({"tokenizer.json": "{"}, "not a tokenizer of the tokenizers library"),
    ],
)
def test_folders_without_a_tokenizer_say_what_they_hold(tmp_path, files, what):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as caught:
        load_tokenizer(tmp_path)
    assert caught.value.what == what
    assert ("AutoTokenizer" in str(caught.value)) == ("vocab.json" in files)


def test_a_special_token_outside_the_vocabulary_is_refused(tmp_path):
    tokenizer = train_tokenizer(TEXTS, 300)
    tokenizer.save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "eos_token": {"content": "</s>"}}))
    with pytest.raises(UserError, match="the eos_token </s> is not a token"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_without_pad_keeps_its_end_token(tmp_path):
    tokenizer = train_tokenizer(TEXTS, 300, pad=False)
    assert isinstance(tokenizer, TextTokenizer)
    assert tokenizer.pad_id is None and tokenizer.eos_id == 0
