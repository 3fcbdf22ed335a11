"""Data2Vec's text encoder: RoBERTa under another name."""

from functools import partial

from hierarchos.models.roberta import forward, read, roberta_family

FAMILY = roberta_family("data2vec-text", partial(read, vocab_size=30522), partial(forward, root="data2vec_text"), "Data2VecTextForMaskedLM",
                        "data2vec_text")
