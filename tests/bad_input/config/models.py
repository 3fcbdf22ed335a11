"""Fresh models and stages that are wrong."""
from __future__ import annotations

from pipelines.stages import STAGES
from tests.bad_input.config.rows import line

MODELS = [
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
    line("evaluation of a fresh model", ["evaluate", "model=llama_tiny"], """\
evaluate needs a package; a fresh model has none
  model.source
  try  model=local model.path=FOLDER       nothing was started"""),
    line("a stage that reads what is not exported", ["train", "pipeline.stages=[acquire,tokenize,train,evaluate]"], """\
evaluate reads the package that export writes; there is no export before it
  pipeline.stages
  try  pipeline.stages=[acquire,tokenize,train,export,evaluate]
  nothing was started"""),
]
