"""model_type -> family. Families are imported when asked for, so that a command line pays only for what it uses."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from hierarchos.errors import UserError, nearest
from hierarchos.models.aliases import TEXTS, WRAPPERS, Alias, text_part
from hierarchos.models.config import Fields
from hierarchos.models.family import Family, Model

FAMILIES = {
    "albert": "hierarchos.models.albert",
    "apertus": "hierarchos.models.apertus",
    "arcee": "hierarchos.models.arcee",
    "bert": "hierarchos.models.bert",
    "bert-generation": "hierarchos.models.bert_generation",
    "biogpt": "hierarchos.models.biogpt",
    "bitnet": "hierarchos.models.bitnet",
    "bloom": "hierarchos.models.bloom",
    "camembert": "hierarchos.models.camembert",
    "codegen": "hierarchos.models.codegen",
    "cohere": "hierarchos.models.cohere",
    "cohere2": "hierarchos.models.cohere2",
    "cohere_compass_text": "hierarchos.models.cohere_compass",
    "ctrl": "hierarchos.models.ctrl",
    "cwm": "hierarchos.models.cwm",
    "data2vec-text": "hierarchos.models.data2vec_text",
    "distilbert": "hierarchos.models.distilbert",
    "electra": "hierarchos.models.electra",
    "emu3_text_model": "hierarchos.models.emu3",
    "ernie": "hierarchos.models.ernie",
    "ernie4_5": "hierarchos.models.ernie4_5",
    "esm": "hierarchos.models.esm",
    "esmc": "hierarchos.models.esmc",
    "eurobert": "hierarchos.models.eurobert",
    "exaone4": "hierarchos.models.exaone4",
    "falcon": "hierarchos.models.falcon",
    "flaubert": "hierarchos.models.flaubert",
    "gemma": "hierarchos.models.gemma",
    "gemma2": "hierarchos.models.gemma2",
    "gemma3_text": "hierarchos.models.gemma3",
    "glm": "hierarchos.models.glm",
    "glm4": "hierarchos.models.glm4",
    "gpt-sw3": "hierarchos.models.gpt_sw3",
    "gpt2": "hierarchos.models.gpt2",
    "gpt_bigcode": "hierarchos.models.gpt_bigcode",
    "gpt_neo": "hierarchos.models.gpt_neo",
    "gpt_neox": "hierarchos.models.gpt_neox",
    "gpt_neox_japanese": "hierarchos.models.gpt_neox_japanese",
    "gptj": "hierarchos.models.gptj",
    "granite": "hierarchos.models.granite",
    "helium": "hierarchos.models.helium",
    "hunyuan_v1_dense": "hierarchos.models.hunyuan_v1_dense",
    "hyperclovax": "hierarchos.models.hyperclovax",
    "jais2": "hierarchos.models.jais2",
    "jina_embeddings_v3": "hierarchos.models.jina_embeddings_v3",
    "llama": "hierarchos.models.llama",
    "megatron-bert": "hierarchos.models.megatron_bert",
    "ministral": "hierarchos.models.ministral",
    "ministral3": "hierarchos.models.ministral3",
    "mistral": "hierarchos.models.mistral",
    "modernbert": "hierarchos.models.modernbert",
    "modernbert-decoder": "hierarchos.models.modernbert_decoder",
    "mpt": "hierarchos.models.mpt",
    "nanochat": "hierarchos.models.nanochat",
    "nemotron": "hierarchos.models.nemotron",
    "nomic_bert": "hierarchos.models.nomic_bert",
    "olmo": "hierarchos.models.olmo",
    "olmo2": "hierarchos.models.olmo2",
    "olmo3": "hierarchos.models.olmo3",
    "open-llama": "hierarchos.models.open_llama",
    "openai-gpt": "hierarchos.models.openai_gpt",
    "opt": "hierarchos.models.opt",
    "persimmon": "hierarchos.models.persimmon",
    "phi": "hierarchos.models.phi",
    "phi3": "hierarchos.models.phi3",
    "qwen2": "hierarchos.models.qwen2",
    "qwen3": "hierarchos.models.qwen3",
    "rembert": "hierarchos.models.rembert",
    "roberta": "hierarchos.models.roberta",
    "roberta-prelayernorm": "hierarchos.models.roberta_prelayernorm",
    "roc_bert": "hierarchos.models.roc_bert",
    "roformer": "hierarchos.models.roformer",
    "seed_oss": "hierarchos.models.seed_oss",
    "smollm3": "hierarchos.models.smollm3",
    "stablelm": "hierarchos.models.stablelm",
    "starcoder2": "hierarchos.models.starcoder2",
    "trocr": "hierarchos.models.trocr",
    "vaultgemma": "hierarchos.models.vaultgemma",
    "xglm": "hierarchos.models.xglm",
    "xlm": "hierarchos.models.xlm",
    "xlm-roberta": "hierarchos.models.xlm_roberta",
    "xlm-roberta-xl": "hierarchos.models.xlm_roberta_xl",
}


class UnknownModelType(UserError):
    """config.json names an architecture that is not here."""


def family(model_type: str, where: str = "config.json") -> Family:
    """The family of a model_type; raises `UnknownModelType` with the nearest names."""
    if model_type not in FAMILIES:
        known = (*FAMILIES, *TEXTS, *WRAPPERS)
        raise UnknownModelType(f"model_type {model_type!r} is not an architecture that is implemented", where=where,
                               nearest=nearest(str(model_type), known), hint="hierarchos architectures  lists those that are")
    return import_module(FAMILIES[model_type]).FAMILY


def resolve(raw: dict, where: str = "config.json", ignore: tuple[str, ...] = ()) -> Model:
    """The model of a config.json's contents; `ignore` names fields that the caller knows to be harmless."""
    if not isinstance(raw, dict):
        raise UserError(f"config.json holds a {type(raw).__name__}, not an object", where=where)
    if not isinstance(raw.get("model_type"), str):
        raise UnknownModelType("config.json has no model_type", where=where, hint="hierarchos architectures  lists those that there are")
    if raw["model_type"] in WRAPPERS:
        return replace(_resolve_text(text_part(raw, where), where, ignore), raw=dict(raw), wrapper=WRAPPERS[raw["model_type"]])
    return _resolve_text(raw, where, ignore)


def _resolve_text(raw: dict, where: str, ignore: tuple[str, ...]) -> Model:
    """A text model under its own name or another."""
    alias = TEXTS.get(raw["model_type"], Alias(raw["model_type"]))
    found = import_module(f"hierarchos.models.{alias.module}").FAMILY if alias.module else family(alias.family, where)
    fields = Fields({**alias.assume, **raw}, raw["model_type"], where, (*ignore, *alias.harmless))
    for name, value in alias.only.items():
        fields.only(name, value)
    config = found.read(fields)
    fields.finish()
    return Model(found, config, dict(raw))


def read_model(folder: str | Path) -> Model:
    """The model of a package folder; raises `UserError` where config.json is absent or is not JSON."""
    path = Path(folder) / "config.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8-sig"))       # some editors write a byte order mark
    except (FileNotFoundError, NotADirectoryError):
        adapter = (path.parent / "adapter_config.json").is_file()
        hint = "adapter_config.json is there: this is an adapter for a model, not a model" if adapter else ()
        raise UserError("a package needs config.json, there is none", where=str(path), hint=hint) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        line = getattr(error, "lineno", 1)
        raise UserError(f"config.json is not JSON: {getattr(error, 'msg', 'not UTF-8')}", where=f"{path}:{line}") from None
    return resolve(raw, str(path))


def tiny_config(name: str) -> dict:
    """config.json of the small preset `<model_type>_tiny`, a copy that may be changed."""
    model_type = name.removesuffix("_tiny")
    return json.loads(json.dumps(family(model_type, f"model={name}").tiny))
