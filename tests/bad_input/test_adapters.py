"""Adapters that cannot be used or trained: nothing is loaded from them."""
# ruff: noqa: E501 (messages as they are)
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.table import FAILED_RUN, SHORT, Wrong, by_name

USE = ("generate", "model.path=pkg", "prompt=1 and", "peft.path=adapter")
FINETUNE = ("finetune", "model.path=pkg", *SHORT, "train.accumulation=1", "data=jsonl", "data.path=rows.jsonl")
ROWS_FILE = {"rows.jsonl": '{"prompt": "1 and 1", "completion": " make 2"}\n' * 20}


def tuned(what: str, message: str, *words: str, **fields) -> Wrong:
    """Settings of an adapter to train."""
    return Wrong(what, (*FINETUNE, *words), message, ROWS_FILE, **fields)


def used(what: str, message: str, damage: Callable[[Path], object], words: tuple[str, ...] = USE, **fields) -> Wrong:
    """A whole adapter for the package that is damaged before it is used."""
    def before(folder: Path) -> None:
        write_adapter(folder)
        damage(folder / "adapter")

    return Wrong(what, words, message, before=before, **fields)


def write_adapter(folder: Path, name: str = "adapter") -> None:
    from hierarchos.models.load import load_model
    from hierarchos.peft.adapted import adapted
    from hierarchos.peft.config import LoraConfig
    from hierarchos.peft.files import save_adapter
    from hierarchos.peft.load import hash_of
    from hierarchos.peft.start import Start

    loaded = load_model(folder / "pkg")
    model = adapted(loaded.model, LoraConfig(r=2, target_modules=("c_attn",)))
    save_adapter(folder / name, model, Start(model, loaded.values(), 0), base_name="pkg", base_hash=hash_of(loaded))


def config(**changes: object) -> Callable[[Path], object]:
    def change(adapter: Path) -> None:
        path = adapter / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def remove(name: str) -> Callable[[Path], object]:
    return lambda adapter: (adapter / name).unlink()


def pickled(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")


def other_base(adapter: Path) -> None:
    (adapter / "base.json").write_text(json.dumps({"sha256": "0123456789abcdef" * 4}))


def model_instead(adapter: Path) -> None:
    for path in adapter.iterdir():
        path.unlink()
    (adapter / "config.json").write_text("{}")


ROWS = [
    tuned("LoRA on a module that is not there", """\
no module is called c_atn                  peft.target_modules
  did you mean  c_attn ?                   nothing was started""", "peft.target_modules=c_atn"),
    tuned("LoRA on the modules of another family", """\
no module is called q_proj                 peft.target_modules
  did you mean  c_proj ?                   nothing was started""", "peft.target_modules=[q_proj,v_proj]"),
    Wrong("a file as an adapter", (*USE, "peft.path=rows.jsonl"), """\
rows.jsonl is a file                       adapter
  an adapter is a folder with adapter_config.json and adapter_model.safetensors
  nothing was started""", ROWS_FILE),
    tuned("several modules in one text", """\
no module is called attn.c_proj, c_attn    peft.target_modules
  several are written as a list:
  try  peft.target_modules=[attn.c_proj,c_attn]
  nothing was started""", "peft.target_modules='attn.c_proj, c_attn'"),
    tuned("an expression that matches nothing", """\
no module matches the expression '.*\\\\.q_proj'
  peft.target_modules
  did you mean  c_proj ?                   nothing was started""", "peft.target_modules=.*\\.q_proj"),
    tuned("a module to save that is not there", """\
no module is called lm_haed                peft.modules_to_save
  did you mean  lm_head ?                  nothing was started""", "peft.modules_to_save=[lm_haed]"),
    tuned("a layer that is not there", """\
layer 7 is not there: the model's targeted layers are 0 to 0
  peft.layers_to_transform
  nothing was started""", "peft.layers_to_transform=[0,7]"),
    tuned("a token to train that is not there", """\
token 4000 is not there: transformer.wte has 300 rows
  peft.trainable_token_indices
  nothing was started""", "peft.trainable_token_indices=[4000]"),
    tuned("a rank of none", """\
peft.rank must be at least 1, not 0        command line
  Inner width of the matrices.             nothing was started""", "peft.rank=0"),
    tuned("a rank pattern that is no number", """\
peft.rank_pattern.c_attn is "wide", not a whole number above 0
  configuration
  nothing was started""", "peft.rank_pattern.c_attn=wide"),
    tuned("a rank as wide as the model", """\
peft.rank=64 is larger than the model's width of 16
  configuration
  try  peft.rank=8                         nothing was started""", "peft.rank=64"),
    tuned("a share of the parameters that is less than rank 1", """\
0.01% of 9,136 parameters are fewer than the 256 of rank 1
  peft.parameter_percent
  rank 1 needs 2.8%                        nothing was started""", "peft.parameter_percent=0.01"),
    tuned("a kind of adapter that is not there", """\
peft=ia3 is not there                      command line
  did you mean  peft=pissa ?
  there is: dora, lora, none, pissa, rslora
  nothing was started""", "peft=ia3"),
    Wrong("an adapter for a model that starts from nothing", ("train", "peft=lora", *SHORT), """\
a fresh model has nothing to keep frozen: an adapter is trained beside the weights of a package
  peft.method
  try  peft=none                           nothing was started"""),
    used("an adapter whose file is a pickle", """\
an adapter needs adapter_model.safetensors, there is none
  adapter
  adapter_model.bin is a pickle, which can run code when it is read, so it is refused; save the adapter again with safe_serialization=True
  nothing was loaded""", pickled),
    used("an adapter of an unknown kind", """\
peft_type 'IA3' is not a kind of adapter that is implemented
  adapter/adapter_config.json
  LORA is, with rsLoRA and DoRA            nothing was started""", config(peft_type="IA3")),
    used("an adapter with a field that is not implemented", """\
use_qalora=true of the adapter is not implemented
  adapter/adapter_config.json
  it would change what the adapter computes, so the adapter is not used
  nothing was loaded""", config(use_qalora=True)),
    used("an adapter of another rank than its config says", """\
the adapter does not fit the model: of its tensors 2 with another shape
  adapter/adapter_model.safetensors
  shape    transformer.h.0.attn.c_attn.lora_A.weight is [2, 16], the model and rank 4 ask for [4, 16]
  shape    transformer.h.0.attn.c_attn.lora_B.weight is [48, 2], the model and rank 4 ask for [48, 4]
  nothing was loaded""", config(r=4)),
    used("an adapter with more modules than its file holds", """\
the adapter does not fit the model: of its tensors 2 missing
  adapter/adapter_model.safetensors
  missing  transformer.h.0.mlp.c_fc.lora_A.weight [2, 16]
  missing  transformer.h.0.mlp.c_fc.lora_B.weight [64, 2]
  nothing was loaded""", config(target_modules=["c_attn", "c_fc"])),
    used("an adapter of another architecture", """\
no module is called q_proj                 adapter/adapter_config.json.target_modules
  did you mean  c_proj ?
  the adapter was made for someone/llama
  nothing was started""", config(target_modules=["q_proj", "v_proj"], base_model_name_or_path="someone/llama")),
    used("an adapter of another base", """\
the adapter was trained on another base: the weights are not those
  adapter
  it was trained on  pkg  0123456789ab
  this base is       pkg  c644e87c0eb6
  nothing was loaded
  stopped in generate; log: run/stages/generate/log""", other_base, (*USE, "run.dir=run"), left=FAILED_RUN),
    used("an adapter without its config", """\
an adapter needs adapter_config.json, there is none
  adapter/adapter_config.json
  nothing was started""", remove("adapter_config.json")),
    used("a model where an adapter is wanted", """\
an adapter needs adapter_config.json, there is none
  adapter/adapter_config.json
  config.json is there: this is a model, not an adapter
  nothing was started""", model_instead),
    used("an adapter that is not there", """\
adaptr is not there                        peft.path
  did you mean  adapter ?                  nothing was started""", lambda adapter: None, ("generate", "model.path=pkg", "prompt=1", "peft.path=adaptr")),
    used("a name that no adapter has", """\
peft.active=formall is none of the adapters
  configuration
  did you mean  formal ?
  there are: formal, and the word none
  nothing was started""", lambda adapter: None,
         ("generate", "model.path=pkg", "prompt=1", "peft.adapters.formal=adapter", "peft.active=formall")),
    used("a merge of an adapter of another base", """\
the adapter was trained on another base: the weights are not those
  adapter
  it was trained on  pkg  0123456789ab
  this base is       pkg  c644e87c0eb6
  nothing was loaded
  stopped in merge; log: run/stages/merge/log""", other_base, ("merge", "model.path=pkg", "peft.path=adapter", "export.path=out", "run.dir=run"), left=FAILED_RUN),
    tuned("every target excluded", """\
no module is left to adapt                 peft.target_modules
  exclude_modules and modules_to_save name all that are targeted
  nothing was started""", "peft.target_modules=[c_attn]", "peft.exclude_modules=[c_attn]"),
    tuned("every target saved as a whole", """\
no module is left to adapt                 peft.target_modules
  exclude_modules and modules_to_save name all that are targeted
  nothing was started""", "peft.target_modules=[c_attn]", "peft.modules_to_save=[c_attn]"),
    tuned("a rank for a module that has no matrices", """\
no adapted module is called c_atn          peft.rank_pattern
  did you mean  c_attn ?
  adapted are: c_attn
  nothing was started""", "peft.target_modules=[c_attn]", "peft.rank_pattern={c_atn: 4}"),
    tuned("an alpha for a module that is not targeted", """\
no adapted module is called c_fc           peft.alpha_pattern
  adapted are: c_attn                      nothing was started""", "peft.target_modules=[c_attn]", "peft.alpha_pattern.c_fc=4"),
    tuned("a rate of embeddings without LoRA+", """\
peft.lora_plus_embedding_rate=1e-05 decides nothing beside peft.lora_plus_ratio=null
  configuration
  try  peft.lora_plus_ratio=16             nothing was started""", "peft.lora_plus_embedding_rate=1e-5"),
    Wrong("an adapter that is not there, to be taken out", ("unmerge", "model.path=pkg", "peft.path=nowhere", "export.path=out"), """\
nowhere is not there                       peft.path
  nothing was started"""),
    Wrong("a merge without an adapter", ("merge", "model.path=pkg", "export.path=out"), """\
peft.path has to be given                  needed by merge
  try  peft.path=ADAPTER                   nothing was started"""),
]


@pytest.mark.parametrize(**by_name(ROWS))
def test_adapter_is_refused(check, row):
    check(row)
