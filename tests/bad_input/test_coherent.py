"""coherent-v9: configurations, packages, chat states and settings that do not fit."""
# ruff: noqa: E501 (messages as they are)
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.table import Wrong, by_name
from tests.coherent_v9.small import talker

TINY = ("model=coherent_v9_tiny", "model.config.context_dim=16", "model.config.ltm_slots=8", "tokenizer.vocab_size=300")
CHAT = ("chat", "model=local", "model.path=talker", "generate.max_new_tokens=2")
STATE = "coherent.chat_state_file=state.json"
TUNE = ("finetune", "model.path=talker")


def rewritten(name: str, change: Callable[[dict], None]) -> Callable[[Path], None]:
    """A package of which one file was changed."""
    def write(place: Path) -> None:
        talker(place)
        path = place / "talker" / name
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))
    return write


def of_another_contract(found: dict) -> None:
    from hierarchos.models.coherent_v9.contract import digest_of

    found["architecture_contract"]["h_stride"] = 4
    found["architecture_contract_sha256"] = digest_of(found["architecture_contract"])


def chat_state(change: Callable[[dict], None] = lambda found: None, **other) -> Callable[[Path], None]:
    """A package and the chat state of a model that may differ from it."""
    def write(place: Path) -> None:
        from hierarchos.generation.coherent.state_file import ChatState, weights_digest, write_state
        from hierarchos.models.coherent_v9.rosa import Automaton
        from hierarchos.models.coherent_v9.state import zeros

        cfg, values, tokenizer = talker(place, **other)
        identity = {"weights": weights_digest(cfg, values), "tokenizer": tokenizer.fingerprint}
        path = place / "state.json"
        write_state(path, cfg, ChatState(zeros(cfg, 1), Automaton(cfg.rosa_cap), 0), identity)
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))
        talker(place)
    return write


def without(name: str) -> Callable[[Path], None]:
    """A package of which one file is gone."""
    def write(place: Path) -> None:
        talker(place)
        (place / "talker" / name).unlink()
    return write


def cut_off(place: Path) -> None:
    """A package whose download ended early."""
    talker(place)
    path = place / "talker/model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])


def learned_elsewhere(place: Path) -> None:
    import numpy as np

    from hierarchos.generation.coherent.overlay import Overlay

    cfg, _, _ = talker(place)
    Overlay(place / "learned.safetensors", cfg, "others").add(np.zeros((8, 4), np.float32))


ROWS = [
    Wrong("more slots read than there are", ("train", *TINY, "model.config.ltm_topk=99"), """\
ltm_topk is 99, but there are only 8 slots
  model.config
  did you mean  ltm_topk=8 ?               nothing was started"""),
    Wrong("heads that do not divide the width", ("train", *TINY, "model.config.rwkv_head_size=5"), """\
rwkv_head_size is 5, which does not divide the width 16
  model.config
  did you mean  rwkv_head_size=4 ?         nothing was started"""),
    Wrong("a key that this model does not have", ("train", *TINY, "model.config.h_strid=5"), """\
h_strid is not a key of coherent-v9        model.config
  did you mean  h_stride ?                 nothing was started"""),
    Wrong("a setting of the run among the model's keys", ("train", *TINY, "model.config.warmup_steps=100"), """\
warmup_steps is not a key of the model but a setting of the run
  model.config
  here it is train.schedule.warmup         nothing was started"""),
    Wrong("several segments of one graph", ("train", *TINY, "model.config.gradient_checkpointing=true"), """\
gradient_checkpointing is not a key of the model but a setting of the run
  model.config
  here it is train.recompute (of full_sample_bptt; chunks decide what they keep)
  nothing was started"""),
    Wrong("recomputation where there are chunks", ("train", *TINY, "train.recompute=true"), """\
train.recompute=true is for model.config.full_sample_bptt=true
  configuration
  otherwise a smaller model.config.training_chunk_size needs less memory
  nothing was started"""),
    Wrong("a whole sample with cuts", ("train", *TINY, "model.config.full_sample_bptt=true"), """\
full_sample_bptt needs detach_every_n_steps: null
  model.config
  try  model.config.detach_every_n_steps=null
  nothing was started"""),
    Wrong("another revision", ("train", *TINY, "model.config.architecture_revision=legacy-v8"), """\
this is a legacy-v8 model: its learned function differs from coherent-v9 in state, memory and halting
  model.config
  legacy packages cannot be converted; train a model with architecture_revision: coherent-v9
  nothing was started"""),
    Wrong("a package of another contract", TUNE, """\
another model: h_stride is 4 there and 2 here
  talker/hierarchos_rust_config.json
  nothing was loaded""", before=rewritten("hierarchos_rust_config.json", of_another_contract)),
    Wrong("a contract changed by hand", TUNE, """\
architecture_contract_sha256 is 576221f5a75b..., but its contract gives 535efc54c89c...
  talker/hierarchos_rust_config.json
  the contract or its digest was changed after it was written
  nothing was loaded""", before=rewritten("hierarchos_rust_config.json", lambda f: f["architecture_contract"].update(h_stride=4))),
    Wrong("a legacy package", TUNE, """\
this is a legacy-v8 model: its learned function differs from coherent-v9 in state, memory and halting
  talker/hierarchos_config.json
  legacy packages cannot be converted; train a model with architecture_revision: coherent-v9
  nothing was loaded""", before=rewritten("hierarchos_config.json", lambda f: f.pop("architecture_revision"))),
    Wrong("half precision", ("train", *TINY, "precision=bf16"), """\
precision.compute=bf16 is not there for coherent-v9
  configuration
  this model is computed in fp32; precision=fp32
  nothing was started"""),
    Wrong("another optimizer", ("train", *TINY, "train.optimizer.name=sgd"), """\
train.optimizer.name=sgd is not there for coherent-v9
  configuration
  its rule is adamw                        nothing was started"""),
    Wrong("an adapter", (*TUNE, "peft.path=adapter"), """\
peft.path=adapter is not there for coherent-v9
  configuration
  coherent.trained names the tensors that are trained; adapters have no place in this model
  nothing was started""", before=talker),
    Wrong("buckets of rows that are not drawn", ("train", *TINY, "coherent.length_buckets=4", "train.shuffle=false"), """\
coherent.length_buckets=4 sorts drawn rows, and train.shuffle=false draws none
  configuration
  nothing was started"""),
    Wrong("buckets of packed rows", ("train", *TINY, "coherent.length_buckets=4"), """\
coherent.length_buckets=4 saves padding, and rows are not padded to the longest of their batch
  configuration
  try  data.layout=pad data.pad_to=longest
  nothing was started"""),
    Wrong("a chat state of another model", (*CHAT, STATE), """\
another model: h_stride is 4 there and 2 here
  state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(h_stride=4)),
    Wrong("a chat state of other weights", (*CHAT, STATE), """\
the chat state was made with other weights
  state.json
  start a new conversation, or give the package that it was made with
  the file is unchanged, the conversation was not continued""", before=chat_state(seed=1)),
    Wrong("a chat state whose digest is not that of its contract", (*CHAT, STATE), """\
architecture_contract_sha256 is 000000000000..., but its contract gives 576221f5a75b...
  state.json
  the contract or its digest was changed after it was written
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f.update(architecture_contract_sha256="0" * 64))),
    Wrong("a chat state that is not finite", (*CHAT, STATE), """\
h.M holds a value that is not finite       state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f["state"]["h.M"]["values"].__setitem__(3, float("nan")))),
    Wrong("half precision, to chat", (*CHAT, "precision=fp16"), """\
precision.compute=fp16 is not there for coherent-v9
  configuration
  this model is computed in fp32; precision=fp32
  nothing was started""", before=talker),
    Wrong("more channels in a head than a device takes", ("train", *TINY, "model.config.context_dim=256", "model.config.rwkv_head_size=256"), """\
a head of 256 channels is more than the 128 that a device takes
  model.config
  did you mean  rwkv_head_size=128 ?       nothing was started"""),
    Wrong("other sizes than the package has", (*TUNE, "model.config.ltm_slots=16"), """\
ltm.keys is [8, 4] in the package, and would be [16, 4]
  model.config
  sizes and parts of a package stay as they are; model=coherent_v9 trains another model
  nothing was started""", before=talker),
    Wrong("a part that the package has, off", (*CHAT, "model.config.use_rosa=false"), """\
rosa_gate_logit is [] in the package, and would be absent
  model.config
  sizes and parts of a package stay as they are; model=coherent_v9 trains another model
  nothing was started""", before=talker),
    Wrong("other heads than the package has", (*TUNE, "model.config.rwkv_head_size=4"), """\
rwkv_head_size=4 decides nothing: the package has h_rwkv_head_size=16 and l_rwkv_head_size=16
  model.config
  nothing was started""", before=talker),
    Wrong("a mode against its switch", ("train", *TINY, "model.config.rosa_embedding_mode=off"), """\
rosa_embedding_mode is 'off', but use_rosa is true
  model.config
  try  model.config.use_rosa=false         nothing was started"""),
    Wrong("beams", (*CHAT, "generate.num_beams=4"), """\
generate.num_beams=4 is not there for coherent-v9
  configuration
  texts are drawn by generate.do_sample, temperature, top_k, top_p and repetition_penalty, and end at coherent.entropy_stop and coherent.eos_stop
  nothing was started""", before=talker),
    Wrong("the rank of an adapter", (*TUNE, "peft.rank=4"), """\
peft.rank=4 is not there for coherent-v9   configuration
  coherent.trained names the tensors that are trained; adapters have no place in this model
  nothing was started""", before=talker),
    Wrong("tensors that are not there, to be trained", (*TUNE, "coherent.trained=[attention]"), """\
no tensor is trained                       coherent.trained
  peft=none trains all of them             nothing was started""", before=talker),
    Wrong("a setting of this model for another one", ("train", "model=llama_tiny", "coherent.persist_state=true"), """\
coherent.persist_state=True decides nothing: this is no coherent-v9 model
  configuration
  leave it out, or train or open a model of model=coherent_v9
  nothing was started"""),
    Wrong("a package without weights", CHAT, """\
a Hierarchos package needs model.safetensors, there is none
  talker
  nothing was loaded""", before=without("model.safetensors")),
    Wrong("a package without a tokenizer", TUNE, """\
a Hierarchos package needs tokenizer.json, there is none
  talker
  nothing was started""", before=without("tokenizer.json")),
    Wrong("a package that was cut off", CHAT, """\
not a usable safetensors file: the header claims 7848 bytes, the file has 2000; it is truncated
  talker/model.safetensors
  copy or download it again                nothing was loaded""", before=cut_off),
    Wrong("a chat state that names no model", (*CHAT, STATE), """\
the chat state is damaged: it does not say which model made it
  state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f.pop("architecture_contract"))),
    Wrong("a chat state whose place in the text is no number", (*CHAT, STATE), """\
the chat state is damaged: position is 'ten', not a number of tokens
  state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f.update(position="ten"))),
    Wrong("a chat state whose history is no history", (*CHAT, STATE), """\
the chat state is damaged: history is no list of questions with answers
  state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f.update(history=[["asked"]]))),
    Wrong("a chat state whose automaton is not that of its tokens", (*CHAT, STATE), """\
the chat state is damaged: rosa is not what its tokens make
  state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f["rosa"].update(tokens=[1, 2, 1]))),
    Wrong("a chat state with too few numbers", (*CHAT, STATE), """\
the chat state is damaged: the values of l.out are not 1 x 16 numbers
  state.json
  the file is unchanged, the conversation was not continued""", before=chat_state(lambda f: f["state"]["l.out"].update(values=[0.5]))),
    Wrong("values of single tokens, of a writer that is not trained", (*CHAT, "coherent.hebbian_writes=true"), """\
the memory's value writer is not trained, so nothing is written at inference
  coherent.hebbian_writes
  train longer (val_proj_trained), or set model.config.allow_untrained_hebbian_writer=true
  nothing was started""", before=talker),
    Wrong("what was learned over other weights", (*CHAT, "coherent.ltm_overlay_file=learned.safetensors"), """\
the overlay was learned over other weights
  learned.safetensors
  give the package that it was learned with, or another coherent.ltm_overlay_file
  the file is unchanged, the conversation was not started""", before=learned_elsewhere),
]


@pytest.mark.parametrize(**by_name(ROWS))
def test_what_is_said(row, check):
    check(row)
