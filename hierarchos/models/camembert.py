"""CamemBERT: RoBERTa under another name."""

from functools import partial

from hierarchos.models.roberta import forward, read, roberta_family

FAMILY = roberta_family("camembert", partial(read, vocab_size=30522), forward, "CamembertForMaskedLM", "roberta")
