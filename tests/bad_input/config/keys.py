"""Keys, values and files of groups that are wrong."""
from __future__ import annotations

from tests.bad_input.config.rows import MODELS, PIPELINES, file, line

KEYS = [
    file("experiment without settings", "# hierarchos train experiment=mine\n", f"""\
{"the file sets nothing":<43}configs/experiment/mine.yaml
  settings are written like this:  train: {{steps: 100}}
  nothing was started"""),
    file("experiment with rows that nothing reads", "data:\n  path: rows.jsonl\n", """\
data.path=rows.jsonl decides nothing beside data.source=corpus
  configuration
  try  data=files                          nothing was started"""),
    line("unknown key", ["train", "train.learning_rte=0.1"], """\
train.learning_rte is not a setting        command line
  did you mean  train.learning_rate ?      nothing was started"""),
    line("unknown key with plus", ["train", "+train.learning_rte=0.1"], """\
train.learning_rte is not a setting        command line
  did you mean  train.learning_rate ?      nothing was started"""),
    line("unknown key, two plus", ["train", "++train.learning_rte=0.1"], """\
train.learning_rte is not a setting        command line
  did you mean  train.learning_rate ?      nothing was started"""),
    line("unknown key at depth", ["train", "train.optimizer.weigth_decay=0"], """\
train.optimizer.weigth_decay is not a setting
  command line
  did you mean  train.optimizer.weight_decay ?
  nothing was started"""),
    line("a step of more rows than there are", ["train", "train.batch_size=8", "train.accumulation=4", "data.max_rows=20",
                                               "data.layout=pad", "data.on_long_row=truncate"], """\
a step of train.batch_size=8 x train.accumulation=4 is more than data.max_rows=20
  configuration
  try  train.accumulation=2                nothing was started"""),
    line("a mixture with mistakes", ["train", "data.mix.a.wieght=1", "data.mix.b.path=5", "data.mix.c.weight=0",
                                    "data.mix.d.source=hub"], """\
data.mix.a.wieght is not a setting of a source
  configuration
  did you mean  weight ?
data.mix.b.path takes text, not 5          configuration
  quote it:  path: "5"
data.mix.c.weight takes a number above 0, not 0
  configuration
data.mix.d.source=hub needs data.mix.d.repo
  configuration
  try  data.mix.d.repo=...
4 mistakes; nothing was started"""),
    line("rows beside a mixture", ["train", "data=files", "data.path=rows.jsonl", "data.mix.a.source=corpus"], """\
data.path=rows.jsonl decides nothing beside data.mix
  configuration
  try  data.mix.NAME.path=...              nothing was started"""),
    line("a repository that nothing writes to", ["evaluate", "model.path=SmolLM2", "export.repo=owner/name"], """\
export.repo=owner/name decides nothing beside a pipeline without the stage upload
  configuration
  try  pipeline.stages=[acquire,tokenize,evaluate,upload]
  nothing was started"""),
    line("key without its group", ["train", "learning_rate=0.1"], """\
learning_rate is not a setting             command line
  did you mean  train.learning_rate ?      nothing was started"""),
    line("key of another trainer", ["train", "gradient_checkpointing=true"], """\
gradient_checkpointing is not a setting    command line
  did you mean  train.recompute ?          nothing was started"""),
    line("misspelled group", ["train", "trian.steps=5"], """\
trian.steps is not a setting               command line
  did you mean  train.steps ?              nothing was started"""),
    line("text for a number", ["train", "train.steps=abc"], """\
train.steps takes a whole number (at least 1) or null, not "abc"
  command line
  nothing was started"""),
    line("fraction for a whole number", ["train", "train.steps=1.5"], """\
train.steps takes a whole number (at least 1) or null, not 1.5
  command line
  nothing was started"""),
    line("below its range", ["train", "train.learning_rate=-5"], """\
train.learning_rate must be above 0, not -5
  command line
  The highest rate of the schedule.        nothing was started"""),
    line("above its range", ["train", "train.schedule.floor=1.5"], """\
train.schedule.floor must be from 0 to 1, not 1.5
  command line
  linear, cosine: the last rate, as a share of train.learning_rate.
  nothing was started"""),
    line("not a number", ["train", "train.learning_rate=nan"], """\
train.learning_rate must be a finite number, not nan
  command line
  nothing was started"""),
    line("yes and no", ["train", "train.dropout=maybe"], """\
train.dropout takes true or false, not "maybe"
  command line
  nothing was started"""),
    line("null where it cannot be", ["train", "train.batch_size=null"], """\
train.batch_size cannot be null            command line
  it takes a whole number (at least 1)     nothing was started"""),
    line("unknown choice", ["train", "data.layout=packed"], """\
data.layout takes pack or pad, not "packed"
  command line
  did you mean  pack ?                     nothing was started"""),
    line("planned choice", ["train", "precision.compute=fp8"], """\
precision.compute=fp8 is not available yet
  command line
  this version computes in fp32, bf16 or fp16
  nothing was started"""),
    line("unknown option", ["train", "model=llama_tniy"], f"""\
model=llama_tniy is not there              command line
  did you mean  model=llama_tiny ?
  {MODELS}
  nothing was started"""),
    line("a file as an option", ["train", "data=rows.jsonl"], """\
data=rows.jsonl names a file               command line
  try  data=files data.path=rows.jsonl     nothing was started"""),
    line("a group as a value", ["train", "train=5"], """\
train is a group of settings               command line
  try  train.learning_rate=...             nothing was started"""),
    line("no value", ["train", "train.steps"], """\
train.steps has no value                   command line
  try  train.steps=...                     nothing was started"""),
    line("not a setting at all", ["train", "--train.steps=5"], """\
--train.steps=5 is not an option           command line
  settings are written without dashes:  train.steps=100
  nothing was started"""),
    line("a setting as an option", ["train", "--rank", "5"], """\
--rank is not an option                    command line
  settings are written without dashes:  train.steps=100
  nothing was started"""),
    line("unknown flag", ["train", "--explian"], """\
--explian is not an option                 command line
  did you mean  --explain ?                nothing was started"""),
    line("several values without -m", ["train", "train.steps=1,2"], """\
train.steps=1,2 has several values         command line
  add -m to run one job for each           nothing was started"""),
    line("broken list", ["train", "data=files", "data.path=[a b"], """\
data.path=[a b cannot be read              command line
  put the value in quotes:  'data.path="..."'
  nothing was started"""),
    line("removal", ["train", "~train.steps"], """\
~train.steps would remove a setting        command line
  give it another value instead            nothing was started"""),
    line("pipeline as a setting", ["train", "pipeline=generate"], """\
the pipeline is the first word             command line
  try  hierarchos generate                 nothing was started"""),
    line("unknown pipeline", ["trian"], f"""\
trian is neither a pipeline nor a command  command line
  did you mean  train ?
  pipelines: {PIPELINES}; commands: hierarchos --help
  nothing was started"""),
    line("rank larger than the model", ["train", "peft=lora", "peft.rank=200"], """\
peft.rank=200 is larger than the model's width of 128
  configuration
  try  peft.rank=8                         nothing was started"""),
    line("path that nothing reads", ["train", "data.path=rows.jsonl"], """\
data.path=rows.jsonl decides nothing beside data.source=corpus
  configuration
  try  data=files                          nothing was started"""),
    line("package that nothing reads", ["train", "model.path=SmolLM2"], """\
model.path=SmolLM2 decides nothing beside model.source=fresh
  configuration
  try  model=local                         nothing was started"""),
    line("passes beside steps", ["train", "train.epochs=3", "train.steps=50"], """\
train.epochs=3 decides nothing beside train.steps=50
  configuration
  try  train.steps=null                    nothing was started"""),
    line("settings without a pipeline", ["train.steps=5"], """\
which pipeline?                            command line
  try  hierarchos train train.steps=5      nothing was started"""),
    line("unknown group in help", ["train", "--help", "tarin"], """\
tarin is not a setting                     --help
  did you mean  train ?                    nothing was started"""),
]
