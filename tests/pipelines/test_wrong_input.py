"""Every wrong command line and file: the exact message, status 2, and nothing on disk."""
from __future__ import annotations

import time

import pytest

from hierarchos.resources import resource

CONFIG = "configuration"
MODEL_FILES = sorted(path.stem for path in resource("configs").joinpath("model").glob("*.yaml"))
MODELS = f"there is: {', '.join(MODEL_FILES[:3])}, ..., {MODEL_FILES[-1]} ({len(MODEL_FILES)} in all)"

COMMAND_LINES = {
    "unknown key": (["train", "train.learning_rte=0.1"], """\
train.learning_rte is not a setting        command line
  did you mean  train.learning_rate ?      nothing was started"""),
    "unknown key with plus": (["train", "+train.learning_rte=0.1"], """\
train.learning_rte is not a setting        command line
  did you mean  train.learning_rate ?      nothing was started"""),
    "unknown key, two plus": (["train", "++train.learning_rte=0.1"], """\
train.learning_rte is not a setting        command line
  did you mean  train.learning_rate ?      nothing was started"""),
    "unknown key at depth": (["train", "train.optimizer.weigth_decay=0"], """\
train.optimizer.weigth_decay is not a setting
  command line
  did you mean  train.optimizer.weight_decay ?
  nothing was started"""),
    "key without its group": (["train", "learning_rate=0.1"], """\
learning_rate is not a setting             command line
  did you mean  train.learning_rate ?      nothing was started"""),
    "key of another trainer": (["train", "gradient_checkpointing=true"], """\
gradient_checkpointing is not a setting    command line
  did you mean  train.recompute ?          nothing was started"""),
    "misspelled group": (["train", "trian.steps=5"], """\
trian.steps is not a setting               command line
  did you mean  train.steps ?              nothing was started"""),
    "text for a number": (["train", "train.steps=abc"], """\
train.steps takes a whole number (at least 1) or null, not "abc"
  command line
  nothing was started"""),
    "fraction for a whole number": (["train", "train.steps=1.5"], """\
train.steps takes a whole number (at least 1) or null, not 1.5
  command line
  nothing was started"""),
    "below its range": (["train", "train.learning_rate=-5"], """\
train.learning_rate must be above 0, not -5
  command line
  The highest rate of the schedule.        nothing was started"""),
    "above its range": (["train", "train.schedule.floor=1.5"], """\
train.schedule.floor must be from 0 to 1, not 1.5
  command line
  linear, cosine: the last rate, as a share of train.learning_rate.
  nothing was started"""),
    "not a number": (["train", "train.learning_rate=nan"], """\
train.learning_rate must be a finite number, not nan
  command line
  nothing was started"""),
    "yes and no": (["train", "train.dropout=maybe"], """\
train.dropout takes true or false, not "maybe"
  command line
  nothing was started"""),
    "null where it cannot be": (["train", "train.batch_size=null"], """\
train.batch_size cannot be null            command line
  it takes a whole number (at least 1)     nothing was started"""),
    "unknown choice": (["train", "data.layout=packed"], """\
data.layout takes pack or pad, not "packed"
  command line
  did you mean  pack ?                     nothing was started"""),
    "planned choice": (["train", "precision=bf16"], """\
precision.compute=bf16 is not available yet
  command line
  this version computes in fp32            nothing was started"""),
    "unknown option": (["train", "model=gpt3_tiny"], f"""\
model=gpt3_tiny is not there               command line
  did you mean  model=gpt2_tiny ?
  {MODELS}
  nothing was started"""),
    "a file as an option": (["train", "data=rows.jsonl"], """\
data=rows.jsonl names a file               command line
  try  data=files data.path=rows.jsonl     nothing was started"""),
    "a group as a value": (["train", "train=5"], """\
train is a group of settings               command line
  try  train.learning_rate=...             nothing was started"""),
    "no value": (["train", "train.steps"], """\
train.steps has no value                   command line
  try  train.steps=...                     nothing was started"""),
    "not a setting at all": (["train", "--train.steps=5"], """\
--train.steps=5 is not an option           command line
  settings are written without dashes:  train.steps=100
  nothing was started"""),
    "unknown flag": (["train", "--explian"], """\
--explian is not an option                 command line
  did you mean  --explain ?                nothing was started"""),
    "several values without -m": (["train", "train.steps=1,2"], """\
train.steps=1,2 has several values         command line
  add -m to run one job for each           nothing was started"""),
    "broken list": (["train", "data=files", "data.path=[a b"], """\
data.path=[a b cannot be read              command line
  put the value in quotes:  'data.path="..."'
  nothing was started"""),
    "removal": (["train", "~train.steps"], """\
~train.steps would remove a setting        command line
  give it another value instead            nothing was started"""),
    "pipeline as a setting": (["train", "pipeline=generate"], """\
the pipeline is the first word             command line
  try  hierarchos generate                 nothing was started"""),
    "unknown pipeline": (["trian"], """\
trian is neither a pipeline nor a command  command line
  did you mean  train ?
  there is: evaluate, fake, finetune, generate, train, devices, doctor, architectures, bench, check
  nothing was started"""),
    "settings without a pipeline": (["train.steps=5"], """\
which pipeline?                            command line
  try  hierarchos train train.steps=5      nothing was started"""),
    "unknown group in help": (["train", "--help", "tarin"], """\
tarin is not a setting                     --help
  did you mean  train ?                    nothing was started"""),
    "missing values": (["generate"], """\
model.path has to be given                 needed by acquire
  Folder of a Hugging Face package (config.json, tokenizer.json, *.safetensors); source=local.
  try  model.path=...
generate.prompt has to be given            needed by generate
  What the model continues; null: a line of the validation rows.
  try  generate.prompt=...
2 mistakes; nothing was started"""),
    "settings that contradict": (["train", "train.schedule.warmup=50", "train.steps=10"], """\
train.schedule.warmup=50 is longer than train.steps=10
  configuration
  nothing was started"""),
    "sequence beyond the context": (["train", "train.sequence_length=4096"], """\
train.sequence_length=4096 is longer than the model's context of 512
  configuration
  nothing was started"""),
    "a source without its path": (["train", "data.source=files"], """\
data.source=files needs data.path          configuration
  try  data.path=...                       nothing was started"""),
    "unknown stage": (["train", "pipeline.stages=[acquire,tokenise]"], """\
tokenise is not a stage                    pipeline.stages
  did you mean  tokenize ?
  there is: acquire, tokenize, train, export, evaluate, generate; or a mapping with _target_
  nothing was started"""),
    "stages out of order": (["train", "pipeline.stages=[acquire,train]"], """\
train needs tokenize before it             pipeline.stages
  nothing was started"""),
    "model folder that is not there": (["generate", "model.path=SmolLM", "prompt=a"], """\
SmolLM is not there                        model.path
  did you mean  SmolLM2 ?                  nothing was started"""),
    "resume of nothing": (["fake", "run.resume=latest"], """\
there is no unfinished run of fake         run.resume
  looked in outputs/fake                   nothing was started"""),
    "resume of a missing directory": (["fake", "run.resume=outputs/fake/gone"], """\
there is no run directory outputs/fake/gone
  run.resume
  nothing was started"""),
    "a stage to force that is not there": (["fake", "run.force=wrods"], """\
wrods is not a stage of this pipeline      run.force
  did you mean  words ?                    nothing was started"""),
    "many at once": (["train", "train.stps=5", "model=lama_tiny", "train.steps=x"], f"""\
train.stps is not a setting                command line
  did you mean  train.steps ?
model=lama_tiny is not there               command line
  did you mean  model=llama_tiny ?
  {MODELS}
train.steps takes a whole number (at least 1) or null, not "x"
  command line
3 mistakes; nothing was started"""),
}

FILES = {
    "unknown keys at several depths": ("""\
train:
  quantizaton: 4bit
  gradient_checkpoint: true
  optimizer:
    wieght_decay: 0.1
lr_scheduler: cosine
""", """\
train.quantizaton is not a setting         configs/experiment/mine.yaml:2
  did you mean  precision.compute ?
train.gradient_checkpoint is not a setting
  configs/experiment/mine.yaml:3
  did you mean  train.recompute ?
train.optimizer.wieght_decay is not a setting
  configs/experiment/mine.yaml:5
  did you mean  train.optimizer.weight_decay ?
lr_scheduler is not a setting              configs/experiment/mine.yaml:6
  did you mean  train.schedule.name ?
4 mistakes; nothing was started"""),
    "text that YAML reads as something else": ("model:\n  repo: no\n  revision: 010\n", """\
model.repo takes text, and YAML reads no as false
  configs/experiment/mine.yaml:2
  quote it:  repo: "no"
model.revision takes text, and YAML reads 010 as 8
  configs/experiment/mine.yaml:3
  quote it:  revision: "010"
2 mistakes; nothing was started"""),
    "wrong type": ("train:\n  steps: soon\n", """\
train.steps takes a whole number (at least 1) or null, not "soon"
  configs/experiment/mine.yaml:2
  nothing was started"""),
    "out of range": ("train:\n  learning_rate: -1e-5\n", """\
train.learning_rate must be above 0, not -1e-05
  configs/experiment/mine.yaml:2
  The highest rate of the schedule.        nothing was started"""),
    "a group without content": ("train:\nmodel:\n  source: fresh\n", """\
train is a group: settings go below it, indented
  configs/experiment/mine.yaml:1
  nothing was started"""),
    "dotted keys": ("train.steps: 5\n", """\
train.steps must be nested in a file       configs/experiment/mine.yaml:1
  train: {steps: ...}                      nothing was started"""),
    "the same key twice": ("train:\n  steps: 5\n  steps: 6\n", """\
steps is given twice                       configs/experiment/mine.yaml:3
  first in line 2                          nothing was started"""),
    "not YAML": ("train: [1, 2\nmodel: x\n", """\
this is not YAML: expected ',' or ']', but got ':'
  configs/experiment/mine.yaml:2
  nothing was started"""),
    "not a mapping": ("- train\n", """\
the file is not a mapping of settings      configs/experiment/mine.yaml:1
  nothing was started"""),
    "unknown group in defaults": ("defaults:\n  - override /modle: llama_tiny\n", """\
modle is not a group of files              configs/experiment/mine.yaml:2
  did you mean  model ?                    nothing was started"""),
    "unknown option in defaults": ("defaults:\n  - override /model: lama_tiny\n", f"""\
model=lama_tiny is not there               configs/experiment/mine.yaml:2
  did you mean  model=llama_tiny ?
  {MODELS}
  nothing was started"""),
    "relative group in defaults": ("defaults:\n  - override model: gpt2_tiny\n", """\
model in a file of experiment/ needs a slash before it
  configs/experiment/mine.yaml:2
  try  override /model: gpt2_tiny          nothing was started"""),
    "a reference to nothing": ("train:\n  steps: ${train.epocs}\n", """\
train.steps refers to something that is not there: Interpolation key 'train.epocs' not found
  configuration
  did you mean  ${train.epochs} ?          nothing was started"""),
    "a reference to the wrong type": ("train:\n  steps: ${train.learning_rate}\n", """\
train.steps refers to a value that does not fit: Value '0.001' of type 'float' could not be converted to Integer
  configuration
  nothing was started"""),
    "a required value": ("tokenizer:\n  path: ???\nexport:\n  path: ???\n", """\
tokenizer.path has to be given             needed by acquire, tokenize
  A tokenizer.json, or the folder that holds it; source=file.
  try  tokenizer.path=...
export.path has to be given                needed by export
  Also copies the package to this folder, which must not exist yet.
  try  export.path=...
2 mistakes; nothing was started"""),
}


@pytest.fixture
def untouched(place):
    (place.path / "SmolLM2").mkdir()
    before = place.files()
    yield place
    assert place.files() == before


@pytest.mark.parametrize("words, message", COMMAND_LINES.values(), ids=COMMAND_LINES.keys())
def test_wrong_command_line_is_told_before_anything_starts(untouched, words, message):
    ended = untouched.call(*words)
    assert ended.err.rstrip("\n") == message
    assert (ended.status, ended.out) == (2, "")


@pytest.mark.parametrize("text, message", FILES.values(), ids=FILES.keys())
def test_wrong_file_is_told_with_its_line(untouched, text, message):
    untouched.write("configs/experiment/mine.yaml", text)
    ended = untouched.call("train", "experiment=mine")
    assert ended.err.rstrip("\n") == message
    assert (ended.status, ended.out) == (2, "")


def test_file_that_is_not_utf8_is_told_with_its_line(untouched):
    (untouched.path / "configs/experiment").mkdir()
    (untouched.path / "configs/experiment/mine.yaml").write_bytes(b"# a\ngenerate:\n  prompt: caf\xe9\n")
    assert untouched.call("train", "experiment=mine").err.splitlines()[0].split() == [
        "the", "file", "is", "not", "UTF-8", "configs/experiment/mine.yaml:3"]


def test_missing_data_file_names_its_neighbours(untouched):
    untouched.write("configs/rows.jsonl", "{}\n")
    ended = untouched.call("train", "data=jsonl", "data.path=configs/row.jsonl")
    assert ended.status == 2
    assert "configs/row.jsonl is not there" in ended.err and "configs/rows.jsonl" in ended.err


def test_unknown_device_lists_the_devices(untouched):
    ended = untouched.call("train", "device=geforce 9999")
    assert ended.status == 2
    assert "geforce 9999" in ended.err and "Traceback" not in ended.err


def test_wrong_input_ends_within_a_second(place):
    best = 9.0
    for _ in range(3):
        begun = time.perf_counter()
        process = place.start("train", "train.learning_rte=0.1")
        _, err = process.communicate()
        best = min(best, time.perf_counter() - begun)
        assert process.returncode == 2 and "train.learning_rate" in err
    assert best < 1.0


def test_no_message_ever_advises_a_plus(place):
    for words, _ in COMMAND_LINES.values():
        assert "use +" not in place.call(*words).err
