"""An encoder from nothing to a package: a tokenizer with a mask, hidden tokens, a score and no text."""
from __future__ import annotations

from tests.pipelines.test_stages import ROWS, SHORT, rows, told  # noqa: F401  (rows is a fixture)

SIZE = ["model=bert_tiny", "model.config.hidden_size=16", "model.config.num_hidden_layers=1", "model.config.num_attention_heads=2",
        "model.config.intermediate_size=32", "tokenizer.vocab_size=300"]


def test_an_encoder_trains_on_hidden_tokens(rows):  # noqa: F811
    ended = rows.call("train", *SIZE, *SHORT, *ROWS, "data.mask_whole_words=true", "run.dir=first")
    assert ended.status == 0, ended.err
    stages = told(rows.path / "first")["stages"]
    assert stages["generate"]["facts"]["stopped"] == "encoder"
    assert 4.0 < stages["train"]["facts"]["loss"] < 7.0
    tuned = rows.call("finetune", "model=local", "model.path=first/model", *SHORT, *ROWS, "run.dir=tuned")
    assert tuned.status == 0, tuned.err


def test_a_tokenizer_without_a_mask_is_refused(rows):  # noqa: F811
    assert rows.call("train", "model=gpt2_tiny", *SHORT, *ROWS, "tokenizer.vocab_size=300", "model.config.n_embd=16",
                     "model.config.n_layer=1", "model.config.n_head=2", "run.dir=other").status == 0
    ended = rows.call("train", *SIZE, *SHORT, *ROWS, "tokenizer.source=file", "tokenizer.path=other/model", "run.dir=first")
    assert ended.status != 0
    assert "no mask token" in ended.err
