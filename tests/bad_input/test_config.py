"""Command lines and configuration files that are wrong: all mistakes at once, before anything starts."""

from __future__ import annotations

import pytest

from hierarchos.resources import resource
from pipelines.settings.folders import Folders, listed
from pipelines.stages import STAGES
from tests.bad_input.table import Wrong, by_name

MODELS = listed(Folders((resource("configs"),)).options("model"))
EXPERIMENTS = listed(Folders((resource("configs"),)).options("experiment"))
PIPELINES = ", ".join(sorted([*Folders((resource("configs"),)).options("pipeline"), "fake"]))
MINE = "configs/experiment/mine.yaml"


def line(what: str, words: list[str], message: str) -> Wrong:
    """A wrong command line."""
    return Wrong(what, tuple(words), message, {"SmolLM2/note": "", "configs/pipeline/fake.yaml": FAKE, "rows.jsonl": '{"text": "a"}\n'})


def file(what: str, text: str | bytes, message: str) -> Wrong:
    """A wrong experiment file."""
    return Wrong(what, ("train", "experiment=mine"), message, {MINE: text})


FAKE = """# hierarchos fake
pipeline:
  name: fake
  stages:
    - {_target_: tests.pipelines.fake_stages.Words}
    - {_target_: tests.pipelines.fake_stages.Learn}
"""

ROWS = [
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
    line("missing values", ["generate"], """\
model.path has to be given                 needed by acquire
  Folder of a Hugging Face package (config.json, tokenizer.json, *.safetensors), or a GGUF file; source=local.
  try  model.path=...
generate.prompt has to be given            needed by generate
  What the model continues; null: a line of the validation rows.
  try  generate.prompt=...
2 mistakes; nothing was started"""),
    line("settings that contradict", ["train", "train.schedule.warmup=50", "train.steps=10"], """\
train.schedule.warmup=50 is longer than train.steps=10
  configuration
  nothing was started"""),
    line("sequence beyond the context", ["train", "train.sequence_length=4096"], """\
train.sequence_length=4096 is longer than the model's context of 512
  configuration
  nothing was started"""),
    line("a source without its path", ["train", "data.source=files"], """\
data.source=files needs data.path          configuration
  try  data.path=...                       nothing was started"""),
    line("unknown stage", ["train", "pipeline.stages=[acquire,tokenise]"], f"""\
tokenise is not a stage                    pipeline.stages
  did you mean  tokenize ?
  there is: {", ".join(STAGES)}; or a mapping with _target_
  nothing was started"""),
    line("stages out of order", ["train", "pipeline.stages=[acquire,train]"], """\
train needs tokenize before it             pipeline.stages
  nothing was started"""),
    line("model folder that is not there", ["generate", "model.path=SmolLM", "prompt=a"], """\
SmolLM is not there                        model.path
  did you mean  SmolLM2 ?                  nothing was started"""),
    line("resume of nothing", ["fake", "run.resume=latest"], """\
there is no unfinished run of fake         run.resume
  looked in outputs/fake                   nothing was started"""),
    line("resume of a missing directory", ["fake", "run.resume=outputs/fake/gone"], """\
there is no run directory outputs/fake/gone
  run.resume
  nothing was started"""),
    line("a stage to force that is not there", ["fake", "run.force=wrods"], """\
wrods is not a stage of this pipeline      run.force
  did you mean  words ?
  its stages: words, learn
  nothing was started"""),
    line("many at once", ["train", "train.stps=5", "model=lama_tiny", "train.steps=x"], f"""\
train.stps is not a setting                command line
  did you mean  train.steps ?
model=lama_tiny is not there               command line
  did you mean  model=llama_tiny ?
  {MODELS}
train.steps takes a whole number (at least 1) or null, not "x"
  command line
3 mistakes; nothing was started"""),
    line("empty word", ["train", ""], """\
"" is not KEY=VALUE                        command line
  write key=value without spaces           nothing was started"""),
    line("key missing before =", ["train", "=5"], """\
=5 has no key before =                     command line
  write key=value without spaces           nothing was started"""),
    line("two equals signs", ["train", "train.steps==5"], """\
train.steps==5 cannot be read              command line
  one = is enough                          nothing was started"""),
    line("short form without a value", ["train", "prompt"], """\
prompt has no value                        command line
  try  prompt=...                          nothing was started"""),
    line("group without a value", ["train", "train"], """\
train is a group of settings               command line
  try  train.learning_rate=...             nothing was started"""),
    line("whole number in scientific notation", ["train", "train.steps=1e3"], """\
train.steps takes a whole number (at least 1) or null, not 1000.0
  command line
  did you mean  train.steps=1000 ?         nothing was started"""),
    line("number too large for a counter", ["train", "train.steps=99999999999"], """\
train.steps must be at most 2147483647, not 99999999999
  command line
  nothing was started"""),
    line("empty text", ["train", "run.outputs="], """\
run.outputs is empty                       command line
  Folder for run directories and for the stage cache.
  try  run.outputs=outputs
  nothing was started"""),
    line("empty path of rows", ["train", "data=jsonl", "data.path="], """\
data.path is empty                         command line
  A file, a glob such as rows/*.jsonl.gz, or a list of them.
  try  data.path=null
  nothing was started"""),
    line("no option of a group", ["train", "model=null"], f"""\
model=null is not there                    command line
  {MODELS}
  nothing was started"""),
    line("empty option", ["train", "model="], f"""\
model= is not there                        command line
  {MODELS}
  nothing was started"""),
    line("option that is not there, nothing near", ["train", "experiment=zzz"], f"""\
experiment=zzz is not there                command line
  {EXPERIMENTS}
  nothing was started"""),
    line("setting of Hydra that decides nothing here", ["train", "hydra.run.dir=x"], """\
hydra.run.dir decides nothing here         command line
  try  run.dir=...                         nothing was started"""),
    line("unknown setting of Hydra", ["train", "hydra.foo=1"], """\
hydra.foo is not a setting                 configuration
  nothing was started"""),
    line("launcher that is not installed", ["train", "-m", "train.steps=1,2", "hydra/launcher=ray"], """\
hydra/launcher=ray is not installed        command line
  try  pip install hydra-ray-launcher      nothing was started"""),
    line("misspelled launcher", ["train", "-m", "train.steps=1,2", "hydra/launcher=jolbib"], """\
there is no hydra/launcher=jolbib          command line
  did you mean  hydra/launcher=joblib ?
  known: basic, joblib, submitit_local, submitit_slurm, ray
  nothing was started"""),
    line("configuration folder missing", ["train", "--config-dir", "nope"], """\
there is no folder nope                    --config-dir
  nothing was started"""),
    line("option without its folder", ["train", "--config-dir", "--explain"], """\
--config-dir needs a folder                command line
  try  --config-dir configs                nothing was started"""),
    line("sweep without several values", ["train", "-m"], """\
-m without a setting that has several values
  command line
  try  train.learning_rate=1e-3,3e-4       nothing was started"""),
    line("fail-fast without a sweep", ["train", "--fail-fast"], """\
--fail-fast is for sweeps                  command line
  add -m and a setting with several values
  nothing was started"""),
    line("one wrong value of a sweep", ["train", "-m", "train.steps=1,x"], """\
train.steps takes a whole number (at least 1) or null, not "x"
  command line
  nothing was started"""),
    line("resume in a sweep", ["train", "-m", "train.steps=1,2", "run.resume=latest"], """\
run.resume cannot be used with -m          command line
  the same command again continues a sweep
  nothing was started"""),
    line("run directory in a sweep", ["train", "-m", "train.steps=1,2", "run.dir=x"], """\
run.dir cannot be used with -m             command line
  every job has a directory of its own; give run.outputs
  nothing was started"""),
    line("a job of a sweep that contradicts itself", ["train", "-m", "train.steps=10,100", "train.schedule.warmup=50"], """\
train.schedule.warmup=50 is longer than train.steps=10
  configuration
  nothing was started"""),
    line("unknown field of a fresh model", ["train", "model.config.hidden_siez=64"], """\
model.config of llama has fields that are not implemented: hidden_siez = 64
  model.config
  did you mean  hidden_size ?
  each could change the computation, so none is skipped silently; where you know that it does not, remove it from the file
  nothing was started"""),
    line("field of a fresh model out of range", ["train", "model.config.hidden_size=129"], """\
hidden_size is 129; llama takes a multiple of num_attention_heads = 4
  model.config
  nothing was started"""),
    line("field of a fresh model of the wrong type", ["train", "model.config.hidden_size=abc"], """\
hidden_size is "abc"; llama takes a whole number of at least 1
  model.config
  nothing was started"""),
    line("unknown architecture of a fresh model", ["train", "model.config.model_type=lama"], """\
model_type 'lama' is not an architecture that is implemented
  model.config
  did you mean  llama ?
  hierarchos architectures  lists those that are
  nothing was started"""),
    line("rope scaling that is not implemented", ["train", "model.config.rope_scaling={type: foo}"], """\
rope_type 'foo' of llama is not implemented
  model.config: rope_parameters
  implemented: default, linear, dynamic, yarn, longrope, llama3, ntk-alpha
  nothing was started"""),
    line("vocabulary smaller than the tokenizer's", ["train", "model.config.vocab_size=100"], """\
model.config.vocab_size=100 is smaller than tokenizer.vocab_size=1024
  configuration
  leave model.config.vocab_size out: it comes from the tokenizer
  nothing was started"""),
    line("tokenizer of a model that has none", ["train", "tokenizer.source=model"], """\
tokenizer.source=model needs a model that has one; a fresh one has none
  configuration
  try  tokenizer.source=train              nothing was started"""),
    line("more new tokens than the model has places", ["train", "generate.max_new_tokens=512"], """\
generate.max_new_tokens=512 is longer than the model's context of 512
  configuration
  nothing was started"""),
    line("stage that is no stage", ["train", "pipeline.stages=[{_target_: os.getcwd}]"], """\
os.getcwd is not a stage                   pipeline.stages
  it lacks name, groups, inputs, cached, uses_device, check, key, run
  nothing was started"""),
    line("stage that cannot be imported", ["train", "pipeline.stages=[{_target_: nope.Nope}]"], """\
the stage nope.Nope cannot be made         pipeline.stages
  Error locating target 'nope.Nope'        nothing was started"""),
    line("no stages", ["train", "pipeline.stages=[]"], f"""\
the pipeline has no stages                 pipeline.stages
  there is: {", ".join(STAGES)}
  nothing was started"""),
    line("pipeline name that is a path", ["train", "pipeline.name=../x"], """\
pipeline.name=../x must be the name of one folder
  configuration
  nothing was started"""),
    line("run directory that exists", ["train", "run.dir=SmolLM2"], """\
SmolLM2 is there already                   run.dir
  a run never writes into a directory that exists
  nothing was started"""),
    line("run directory below a file", ["train", "run.dir=rows.jsonl/x"], """\
the folder rows.jsonl/x cannot be made: not a directory
  run.dir
  nothing was started"""),
    line("outputs that are a file", ["train", "run.outputs=rows.jsonl"], """\
the folder rows.jsonl/train cannot be made: not a directory
  run.outputs
  nothing was started"""),
    line("package into a folder that exists", ["train", "export.path=SmolLM2"], """\
SmolLM2 is there already                   export.path
  give a folder that does not exist yet    nothing was started"""),
    line("package below a file", ["train", "export.path=rows.jsonl/x"], """\
rows.jsonl/x lies below rows.jsonl, which is a file
  export.path
  nothing was started"""),
    line("package into the run directory", ["train", "export.path=out", "run.dir=out"], """\
export.path=out is the run directory itself
  configuration
  nothing was started"""),
    line("data file that is not there", ["train", "data=jsonl", "data.path=row.jsonl"], """\
row.jsonl is not there                     data.path
  did you mean  rows.jsonl ?
  . holds SmolLM2, configs, rows.jsonl
  nothing was started"""),
    line("validation file that is not there", ["train", "data.validation_path=row.jsonl"], """\
row.jsonl is not there                     data.validation_path
  did you mean  rows.jsonl ?
  . holds SmolLM2, configs, rows.jsonl
  nothing was started"""),
    line("glob that matches nothing", ["train", "data=files", "data.path=*.csv"], """\
*.csv matches no file                      data.path
  . holds SmolLM2, configs, rows.jsonl     nothing was started"""),
    line("folder without data", ["train", "data=files", "data.path=SmolLM2"], """\
SmolLM2 holds no data files                data.path
  looked for .txt, .jsonl, .ndjson, .json, .csv, .tsv, .parquet, each also with .gz
  nothing was started"""),
    line("chat template that is not there", ["train", "tokenizer.chat_template=chat.jinja"], """\
chat.jinja is not there                    tokenizer.chat_template
  nothing was started"""),
    line("chat template without a message", ["train", "tokenizer.chat_template=SmolLM2/note"], """\
SmolLM2/note is no chat template: it uses no message
  tokenizer.chat_template
  nothing was started"""),
    line("tokenizer that is not there", ["train", "tokenizer.source=file", "tokenizer.path=nope"], """\
nope is not there                          tokenizer.path
  nothing was started"""),
    line("tokenizer that is none", ["train", "tokenizer.source=file", "tokenizer.path=rows.jsonl"], """\
not a tokenizer of the tokenizers library  rows.jsonl
  expected `,` or `}` at line 1 column 8   nothing was started"""),
    line("resume misspelled", ["fake", "run.resume=lates"], """\
there is no run directory lates            run.resume
  did you mean  latest ?                   nothing was started"""),
    line("resume of a folder that is no run", ["fake", "run.resume=SmolLM2"], """\
SmolLM2 is not a run directory             run.resume
  it has no run.json that can be read      nothing was started"""),
    line("word for a command that takes none", ["architectures", "x"], """\
x is not understood                        command line
  it takes --json                          nothing was started"""),
    line("file to check that is not there", ["check", "configs/experiment/mien.yaml"], """\
there is no file configs/experiment/mien.yaml
  command line
  nothing was started"""),
    line("folder to check", ["check", "configs"], """\
configs is a folder                        command line
  hierarchos check  without a name looks at everything
  nothing was started"""),
    line("file to check outside experiment/", ["check", "rows.jsonl"], """\
rows.jsonl is not in a folder experiment/  command line
  only experiment files are checked by name
  nothing was started"""),
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


@pytest.mark.parametrize(**by_name(ROWS))
def test_wrong_settings_are_told_before_anything_starts(check, row):
    check(row)


def test_no_message_ever_advises_a_plus():
    assert [row.what for row in ROWS if "use +" in row.message] == []
