"""Packages that cannot be used: nothing is read from them, and no run starts."""
# ruff: noqa: E501 (messages as they are)
from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.config.rows import MODELS
from tests.bad_input.table import SHORT, Wrong, by_name

GENERATE = ("generate", "model.path=pkg", "prompt=1 and")
FINETUNE = ("finetune", "model.path=pkg", *SHORT, "train.accumulation=1", "data=jsonl", "data.path=rows.jsonl")
ROWS_FILE = {"rows.jsonl": '{"prompt": "1 and 1", "completion": " make 2"}\n' * 20}


def broken(what: str, message: str, damage: Callable[[Path], object], words: tuple[str, ...] = GENERATE) -> Wrong:
    """A whole package that is damaged before it is used."""
    return Wrong(what, words, message, before=lambda folder: damage(folder / "pkg"))


def tuned(what: str, message: str, *words: str) -> Wrong:
    """Settings of a training run that its package does not allow."""
    return Wrong(what, (*FINETUNE, *words), message, ROWS_FILE)


def write(name: str, content: bytes | str) -> Callable[[Path], object]:
    return lambda package: (package / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def remove(name: str) -> Callable[[Path], object]:
    return lambda package: (package / name).unlink()


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda package: (package / name).write_bytes((package / name).read_bytes()[:size])


def config(**changes: object) -> Callable[[Path], object]:
    return lambda package: (package / "config.json").write_text(json.dumps(json.loads((package / "config.json").read_text()) | changes))


def header(entries: dict, body: int = 8) -> Callable[[Path], object]:
    """model.safetensors with this header and `body` bytes after it."""
    text = json.dumps(entries).encode()
    return write("model.safetensors", struct.pack("<Q", len(text)) + text + b"\0" * body)


def entry(shape: list[int], *offsets: int, dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}


def sharded(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """The package in shards of 16 KB, then changed."""
    def damage(package: Path) -> None:
        from hierarchos.hub.package import Package
        from hierarchos.hub.write import write_package

        whole = Package(package)
        values = {name: whole.read(name).copy() for name in whole.entries}
        write_package(package.parent / "shards", json.loads((package / "config.json").read_text()), values, companions=package, shard_bytes=16_000)
        shutil.rmtree(package)
        (package.parent / "shards").rename(package)
        change(package)

    return damage


def index(name: str, file: str) -> Callable[[Path], object]:
    """Points a tensor of the index at another file."""
    def damage(package: Path) -> None:
        path = package / "model.safetensors.index.json"
        found = json.loads(path.read_text())
        found["weight_map"][name] = file
        path.write_text(json.dumps(found))

    return damage


def adapter_only(package: Path) -> None:
    for path in package.iterdir():
        path.unlink()
    (package / "adapter_config.json").write_text("{}")


GGUF_FILE = {"tiny.gguf": b"GGUF\3\0\0\0", **ROWS_FILE}
GGUF = """\
tiny.gguf is damaged or cut short          tiny.gguf
  download it again                        nothing was started"""
ROWS = [
    Wrong("a repository as a folder", ("generate", "model.path=someone/small-model", "prompt=a"), """\
someone/small-model is not there           model.path
  there is no folder someone either
  try  model=hub model.repo=someone/small-model  for a repository of huggingface.co
  nothing was started"""),
    Wrong("a folder as an option", ("generate", "model=./pkg", "prompt=a"), f"""\
model=./pkg is not there                   command line
  {MODELS}
  try  model=local model.path=./pkg
  nothing was started"""),
    Wrong("a repository as an option", ("generate", "model=someone/small-model", "prompt=a"), f"""\
model=someone/small-model is not there     command line
  {MODELS}
  try  model=hub model.repo=someone/small-model
  nothing was started"""),
    Wrong("folder that is not there", ("generate", "model.path=pgk", "prompt=a"), """\
pgk is not there                           model.path
  did you mean  pkg ?                      nothing was started""", before=lambda folder: (folder / "pkg").mkdir()),
    Wrong("file instead of a folder", ("generate", "model.path=rows.jsonl", "prompt=a"), """\
rows.jsonl is a file                       model.path
  a package is a folder with config.json, tokenizer.json, *.safetensors; one file is read where it is NAME.gguf
  nothing was started""", ROWS_FILE),
    Wrong("a GGUF file that is cut short", ("generate", "model.path=tiny.gguf", "prompt=a"), GGUF, GGUF_FILE),
    Wrong("a file to convert that is no GGUF file", ("convert", "model.path=rows.jsonl", "export.path=out"), """\
rows.jsonl is no GGUF file: it begins with b'{"pr'
  rows.jsonl
  nothing was started""", ROWS_FILE),
    Wrong("empty path", ("generate", "model.path=", "prompt=a"), """\
model.path is empty                        command line
  Folder of a Hugging Face package (config.json, tokenizer.json, *.safetensors), or a GGUF file; source=local.
  try  model.path=null
  nothing was started"""),
    broken("no config.json", """\
a package needs config.json, there is none
  pkg/config.json
  nothing was started""", remove("config.json")),
    broken("only an adapter", """\
a package needs config.json, there is none
  pkg/config.json
  adapter_config.json is there: this is an adapter for a model, not a model
  nothing was started""", adapter_only),
    broken("truncated config.json", """\
config.json is not JSON: Unterminated string starting at
  pkg/config.json:1
  nothing was started""", write("config.json", '{"model_type": "gp')),
    broken("config.json holds a list", """\
config.json holds a list, not an object    pkg/config.json
  nothing was started""", write("config.json", "[]")),
    broken("config.json in Windows-1252", """\
config.json is not JSON: not UTF-8         pkg/config.json:1
  nothing was started""", write("config.json", b'{"model_type": "caf\xe9"}')),
    broken("config.json without model_type", """\
config.json has no model_type              pkg/config.json
  hierarchos architectures  lists those that there are
  nothing was started""", config(model_type=None)),
    broken("unknown architecture", """\
model_type 'lama' is not an architecture that is implemented
  pkg/config.json
  did you mean  llama ?
  hierarchos architectures  lists those that are
  nothing was started""", config(model_type="lama")),
    broken("unsupported config field", """\
config.json of gpt2 has fields that are not implemented: attention_sinks = 4
  pkg/config.json
  did you mean  num_attention_heads ?
  each could change the computation, so none is skipped silently; where you know that it does not, remove it from the file
  nothing was started""", config(attention_sinks=4)),
    broken("unsupported config value", """\
add_cross_attention is true; gpt2 takes false (other values are not implemented)
  pkg/config.json
  nothing was started""", config(add_cross_attention=True)),
    broken("config value out of range", """\
n_layer is 0; gpt2 takes a whole number of at least 1
  pkg/config.json
  nothing was started""", config(n_layer=0)),
    broken("config value of the wrong type", """\
n_embd is "16"; gpt2 takes a whole number of at least 1
  pkg/config.json
  nothing was started""", config(n_embd="16")),
    broken("quantized package", """\
quantization_config is {"quant_method": "gptq"}; gpt2 takes null (other values are not implemented)
  pkg/config.json
  nothing was started""", config(quantization_config={"quant_method": "gptq"})),
    broken("vocabulary larger than the embedding", """\
the package does not fit its config.json: 1 tensor has another shape
  pkg
  shape    transformer.wte.weight is [300, 16], config.json asks for [400, 16]
  nothing was loaded""", config(vocab_size=400)),
    broken("vocabulary smaller than the embedding", """\
the package does not fit its config.json: 1 tensor has another shape
  pkg
  shape    transformer.wte.weight is [300, 16], config.json asks for [200, 16]
  nothing was loaded""", config(vocab_size=200)),
    broken("more layers than there are tensors", """\
the package does not fit its config.json: 12 tensors are missing
  pkg
  missing  transformer.h.1.ln_1.weight [16]
  missing  transformer.h.1.ln_1.bias [16]
  missing  transformer.h.1.attn.c_attn.weight [16, 48]
  missing  transformer.h.1.attn.c_attn.bias [48]
  missing  transformer.h.1.attn.c_proj.weight [16, 16]
  missing  transformer.h.1.attn.c_proj.bias [16]
  missing  transformer.h.1.ln_2.weight [16]
  missing  transformer.h.1.ln_2.bias [16]
           ... and 4 more
  nothing was loaded""", config(n_layer=2)),
    broken("no weights", """\
a package needs model.safetensors or model.safetensors.index.json, there is neither
  pkg
  nothing was started""", remove("model.safetensors")),
    broken("only pickled weights", """\
a package needs model.safetensors or model.safetensors.index.json, there is neither
  pkg
  pytorch_model.bin is a pickle, which can run code when it is read; convert it to safetensors first
  nothing was started""", lambda package: (package / "model.safetensors").rename(package / "pytorch_model.bin")),
    broken("truncated safetensors", """\
not a usable safetensors file: 'transformer.wte.weight' ends at byte 20680, the file has 20000; it is truncated
  pkg/model.safetensors
  copy or download it again                nothing was loaded""", cut("model.safetensors", 20_000)),
    broken("safetensors of three bytes", """\
not a usable safetensors file: the file has 3 bytes; it is truncated
  pkg/model.safetensors
  copy or download it again                nothing was loaded""", write("model.safetensors", b"abc")),
    broken("hostile safetensors: header length", """\
not a usable safetensors file: the header claims 9223372036854775808 bytes; at most 100000000 are allowed, so this is not a safetensors file
  pkg/model.safetensors
  nothing was loaded""", write("model.safetensors", struct.pack("<Q", 2**63) + b"{}")),
    broken("hostile safetensors: header that is not JSON", """\
not a usable safetensors file: the header is not JSON (UnicodeDecodeError)
  pkg/model.safetensors
  nothing was loaded""", write("model.safetensors", struct.pack("<Q", 4) + b"\xff\xff\xff\xff")),
    broken("hostile safetensors: deep nesting", """\
not a usable safetensors file: the header is not JSON (RecursionError)
  pkg/model.safetensors
  nothing was loaded""", write("model.safetensors", struct.pack("<Q", 100_000) + b"[" * 100_000)),
    broken("hostile safetensors: tensors that overlap", """\
not a usable safetensors file: 'b' overlaps 'a'
  pkg/model.safetensors
  nothing was loaded""", header({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12)),
    broken("hostile safetensors: sizes that overflow", """\
not a usable safetensors file: 'a' F32[1099511627776, 1099511627776] needs 4835703278458516698824704 bytes, its data_offsets span 8
  pkg/model.safetensors
  nothing was loaded""", header({"a": entry([2**40, 2**40], 0, 8)})),
    broken("hostile safetensors: offsets below zero", """\
not a usable safetensors file: 'a' has shape [2] and data_offsets [-8, 0]; lists of whole numbers from 0 are needed
  pkg/model.safetensors
  nothing was loaded""", header({"a": entry([2], -8, 0)})),
    broken("hostile safetensors: unknown dtype", """\
not a usable safetensors file: 'a' has dtype 'F128'; known are F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, BOOL, F8_E4M3, F8_E5M2
  pkg/model.safetensors
  nothing was loaded""", header({"a": entry([2], 0, 8, dtype="F128")})),
    broken("safetensors of another model", """\
the package does not fit its config.json: 16 tensors are missing, 1 tensor is not used
  pkg
  missing  transformer.wte.weight [300, 16]
  missing  transformer.wpe.weight [64, 16]
  missing  transformer.h.0.ln_1.weight [16]
  missing  transformer.h.0.ln_1.bias [16]
  missing  transformer.h.0.attn.c_attn.weight [16, 48]
  missing  transformer.h.0.attn.c_attn.bias [48]
  missing  transformer.h.0.attn.c_proj.weight [16, 16]
  missing  transformer.h.0.attn.c_proj.bias [16]
           ... and 8 more
  unused   a [2]
  nothing was loaded""", header({"a": entry([2], 0, 8)})),
    broken("shard missing", """\
1 of 3 shards are missing: model-00002-of-00003.safetensors
  pkg/model.safetensors.index.json
  copy or download the package again       nothing was started""", sharded(lambda package: sorted(package.glob("model-*"))[1].unlink())),
    broken("shard outside the package", """\
the index names '../../etc/passwd', which is not a file of this package
  pkg/model.safetensors.index.json
  file names in weight_map have no folder in them
  nothing was read""", sharded(index("transformer.wte.weight", "../../etc/passwd"))),
    broken("shard that does not hold its tensor", """\
the index places transformer.ln_f.weight in model-00001-of-00003.safetensors, which does not hold it
  pkg/model.safetensors.index.json
  copy or download the package again       nothing was started""", sharded(index("transformer.ln_f.weight", "model-00001-of-00003.safetensors"))),
    broken("truncated index", """\
the index is not JSON with a weight_map of names to files
  pkg/model.safetensors.index.json
  nothing was started""", sharded(write("model.safetensors.index.json", "{"))),
    broken("no tokenizer", """\
tokenizer.json is not there                pkg/tokenizer.json
  pkg holds config.json, model.safetensors, special_tokens_map.json, tokenizer_config.json
  nothing was started""", remove("tokenizer.json")),
    broken("truncated tokenizer", """\
not a tokenizer of the tokenizers library  pkg/tokenizer.json
  EOF while parsing a string at line 11 column 11
  nothing was started""", cut("tokenizer.json", 200)),
    broken("tokenizer_config.json that is not JSON", """\
not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
  pkg/tokenizer_config.json
  nothing was started""", write("tokenizer_config.json", "{")),
    tuned("sequence longer than the context", """\
train.sequence_length=65 is longer than the model's context of 64
  configuration
  try  train.sequence_length=64            nothing was started""", "train.sequence_length=65"),
    tuned("field of the package changed so that its tensors do not fit", """\
the package does not fit its config.json: 16 tensors have another shape
  pkg
  shape    transformer.wte.weight is [300, 16], config.json asks for [300, 32]
  shape    transformer.wpe.weight is [64, 16], config.json asks for [64, 32]
  shape    transformer.h.0.ln_1.weight is [16], config.json asks for [32]
  shape    transformer.h.0.ln_1.bias is [16], config.json asks for [32]
  shape    transformer.h.0.attn.c_attn.weight is [16, 48], config.json asks for [32, 96]
  shape    transformer.h.0.attn.c_attn.bias is [48], config.json asks for [96]
  shape    transformer.h.0.attn.c_proj.weight is [16, 16], config.json asks for [32, 32]
  shape    transformer.h.0.attn.c_proj.bias is [16], config.json asks for [32]
           ... and 8 more
  nothing was loaded""", "model.config.n_embd=32"),
    tuned("unknown field of the package", """\
model.config of gpt2 has fields that are not implemented: n_embed = 32
  model.config
  did you mean  n_embd ?
  each could change the computation, so none is skipped silently; where you know that it does not, remove it from the file
  nothing was started""", "model.config.n_embed=32"),
    tuned("another architecture for the package", """\
model.config of llama has fields that are not implemented: n_embd = 16, n_layer = 1, n_head = 2, n_positions = 64, attn_pdrop = 0.0, embd_pdrop = 0.0, resid_pdrop = 0.0
  model.config
  each could change the computation, so none is skipped silently; where you know that it does not, remove it from the file
  nothing was started""", "model.config.model_type=llama"),
    Wrong("tokenizer without an end token", (*FINETUNE, "tokenizer.source=file", "tokenizer.path=alone.json"), """\
the tokenizer has no end token             alone.json
  without one a model never learns to stop; name one as eos_token in tokenizer_config.json
  nothing was started""", ROWS_FILE,
          before=lambda folder: shutil.copy(folder / "pkg/tokenizer.json", folder / "alone.json")),
    tuned("tokenizer file that is none", """\
not a tokenizer of the tokenizers library  rows.jsonl
  expected `,` or `}` at line 1 column 10  nothing was started""", "tokenizer.source=file", "tokenizer.path=rows.jsonl"),
    Wrong("tokenizer that makes more ids than the embedding has rows", (*FINETUNE, "tokenizer.source=file", "tokenizer.path=big"), """\
the vocabulary of 310 is larger than the embedding of 300
  big/tokenizer.json
  the tokenizer's largest id is 309 ('more9'); the embedding has 300 rows
  try  model.config.vocab_size=310  for a new model, or tokenizer.source=model
  nothing was started""",
          ROWS_FILE, before=lambda folder: larger_tokenizer(folder)),
]


def larger_tokenizer(folder: Path) -> None:
    """The package's tokenizer with ten tokens more."""
    found = json.loads((folder / "pkg/tokenizer.json").read_text())
    first = len(found["model"]["vocab"])
    found["model"]["vocab"] |= {f"more{n}": first + n for n in range(10)}
    shutil.copytree(folder / "pkg", folder / "big")
    (folder / "big/tokenizer.json").write_text(json.dumps(found))


@pytest.mark.parametrize(**by_name(ROWS))
def test_packages_that_cannot_be_used(check, row):
    check(row)


@pytest.mark.parametrize("words", [("train", "model=local"), ("finetune",), ("evaluate",), ("chat",)], ids=" ".join)
def test_every_command_looks_into_a_gguf_file_first(check, words):
    check(Wrong("", (*words, "model.path=tiny.gguf", *(("data=jsonl", "data.path=rows.jsonl") if words[0] != "chat" else ())), GGUF, GGUF_FILE))


def test_a_byte_order_mark_before_config_json_is_no_error(package, place):
    shutil.copytree(package, place.path / "pkg")
    path = place.path / "pkg/config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert place.call("generate", "model.path=pkg", "prompt=1 and", "--explain").status == 0
