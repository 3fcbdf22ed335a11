"""Files and folders that are not there, or are there already."""
from __future__ import annotations

from tests.bad_input.config.rows import line

PLACES = [
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
]
