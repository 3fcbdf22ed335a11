"""Experiment files that are wrong."""
from __future__ import annotations

from tests.bad_input.config.rows import MODELS, file

FILES = [
    file("unknown keys at several depths", """\
train:
  quantizaton: 4bit
  gradient_checkpoint: true
  optimizer:
    wieght_decay: 0.1
lr_scheduler: cosine
""", """\
train.quantizaton is not a setting         configs/experiment/mine.yaml:2
  did you mean  precision.base ?
train.gradient_checkpoint is not a setting
  configs/experiment/mine.yaml:3
  did you mean  train.recompute ?
train.optimizer.wieght_decay is not a setting
  configs/experiment/mine.yaml:5
  did you mean  train.optimizer.weight_decay ?
lr_scheduler is not a setting              configs/experiment/mine.yaml:6
  did you mean  train.schedule.name ?
4 mistakes; nothing was started"""),
    file("text that YAML reads as something else", """\
model:
  repo: no
  revision: 010
""", """\
model.repo takes text, and YAML reads no as false
  configs/experiment/mine.yaml:2
  quote it:  repo: "no"
model.revision takes text, and YAML reads 010 as 8
  configs/experiment/mine.yaml:3
  quote it:  revision: "010"
2 mistakes; nothing was started"""),
    file("wrong type", """\
train:
  steps: soon
""", """\
train.steps takes a whole number (at least 1) or null, not "soon"
  configs/experiment/mine.yaml:2
  nothing was started"""),
    file("out of range", """\
train:
  learning_rate: -1e-5
""", """\
train.learning_rate must be above 0, not -1e-05
  configs/experiment/mine.yaml:2
  The highest rate of the schedule.        nothing was started"""),
    file("a group without content", """\
train:
model:
  source: fresh
""", """\
train is a group: settings go below it, indented
  configs/experiment/mine.yaml:1
  nothing was started"""),
    file("dotted keys", """\
train.steps: 5
""", """\
train.steps must be nested in a file       configs/experiment/mine.yaml:1
  train: {steps: ...}                      nothing was started"""),
    file("the same key twice", """\
train:
  steps: 5
  steps: 6
""", """\
steps is given twice                       configs/experiment/mine.yaml:3
  first in line 2                          nothing was started"""),
    file("not YAML", """\
train: [1, 2
model: x
""", """\
this is not YAML: expected ',' or ']', but got ':'
  configs/experiment/mine.yaml:2
  nothing was started"""),
    file("not a mapping", """\
- train
""", """\
the file is not a mapping of settings      configs/experiment/mine.yaml:1
  nothing was started"""),
    file("unknown group in defaults", """\
defaults:
  - override /modle: llama_tiny
""", """\
modle is not a group of files              configs/experiment/mine.yaml:2
  did you mean  model ?                    nothing was started"""),
    file("unknown option in defaults", """\
defaults:
  - override /model: lama_tiny
""", f"""\
model=lama_tiny is not there               configs/experiment/mine.yaml:2
  did you mean  model=llama_tiny ?
  {MODELS}
  nothing was started"""),
    file("relative group in defaults", """\
defaults:
  - override model: gpt2_tiny
""", """\
model in a file of experiment/ needs a slash before it
  configs/experiment/mine.yaml:2
  try  override /model: gpt2_tiny          nothing was started"""),
    file("a reference to nothing", """\
train:
  steps: ${train.epocs}
""", """\
train.steps refers to something that is not there: Interpolation key 'train.epocs' not found
  configuration
  did you mean  ${train.epochs} ?          nothing was started"""),
    file("a reference to the wrong type", """\
train:
  steps: ${train.optimizer.beta1}
""", """\
train.steps refers to a value that does not fit: Value '0.9' of type 'float' could not be converted to Integer
  configuration
  nothing was started"""),
    file("a required value", """\
tokenizer:
  path: ???
export:
  path: ???
""", """\
tokenizer.path has to be given             needed by acquire, tokenize
  A tokenizer.json, or the folder that holds it; source=file.
  try  tokenizer.path=...
export.path has to be given                needed by export
  Also copies the package to this folder, which must not exist yet.
  try  export.path=...
2 mistakes; nothing was started"""),
    file("bytes that are not UTF-8", b"# a\ngenerate:\n  prompt: caf\xe9\n", """\
the file is not UTF-8                      configs/experiment/mine.yaml:3
  save it as UTF-8                         nothing was started"""),
    file("file cut off", "train:\n  optimizer: {name: sgd", """\
this is not YAML: expected ',' or '}', but got '<stream end>'
  configs/experiment/mine.yaml:2
  nothing was started"""),
]
