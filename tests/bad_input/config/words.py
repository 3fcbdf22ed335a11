"""Missing values, settings that contradict each other, words that cannot be read, sweeps."""
from __future__ import annotations

from pipelines.stages import STAGES
from tests.bad_input.config.rows import EXPERIMENTS, MODELS, line

WORDS = [
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
    line("an empty range in a sweep", ["train", "-m", "train.steps=range(5,1)"], """\
train.steps=range(5,1) has no value        command line
  a range ends before its second number    nothing was started"""),
    line("a glob of a sweep that matches nothing", ["train", "-m", "model=glob(zzz*)"], """\
model=glob(zzz*) has no value              command line
  no file has such a name                  nothing was started"""),
    line("a tolerance below nothing", ["rerun", "outputs/train/one", "--tolerance", "-1"], """\
--tolerance takes a number from 0 on, not -1
  command line
  try  --tolerance 1e-3                    nothing was started"""),
]
