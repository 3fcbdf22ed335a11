"""Generation, chat, choices and tokens: what cannot be done, told before or at the prompt that it concerns."""
# ruff: noqa: E501 (messages as they are)
from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bad_input.table import FAILED_RUN, Wrong, by_name

GENERATE = ("generate", "model.path=pkg", "prompt=1 and", "generate.max_new_tokens=5")
CHOICES = ("choices", "model.path=pkg")
RAISES = "{{ raise_exception('no questions today') }}"
ANSWERED = "{% if messages[0].role != 'system' %}{{ raise_exception('a system turn comes first') }}{% endif %}"


def config(**changes):
    """Writes options into the package's generation_config.json."""
    def write(place: Path) -> None:
        path = place / "pkg" / "generation_config.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(found | changes))
    return write


def smaller_embedding(place: Path) -> None:
    """The tokenizer of another model: it has a token that the embedding has no row for."""
    path = place / "pkg" / "tokenizer.json"
    found = json.loads(path.read_text())
    found["added_tokens"].append({"id": 300, "content": "<more>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                                  "special": True})
    path.write_text(json.dumps(found))


ROWS = [
    Wrong("prompt and prompts", (*GENERATE, "generate.prompts=prompts.txt"), """\
generate.prompt and generate.prompts are both given
  one of them is enough                    nothing was started""", {"prompts.txt": "a\n"}),
    Wrong("prompts that are not there", ("generate", "model.path=pkg", "generate.prompts=prompts.txt", "generate.prompt=null"), """\
prompts.txt is not there                   generate.prompts
  nothing was started"""),
    Wrong("no prompt in a file", ("generate", "model.path=pkg", "generate.prompts=prompts.txt", "generate.prompt=null"), """\
prompts.txt has no line with a prompt      generate.prompts
  nothing was started""", {"prompts.txt": "\n \n"}),
    Wrong("option that is not implemented", (*GENERATE, "generate.options.num_beam_groups=2"), """\
num_beam_groups is not implemented: group beam search
  generate.options
  leave num_beam_groups out                nothing was generated"""),
    Wrong("option that is not implemented, in the package", (*GENERATE, "run.dir=run"), """\
guidance_scale is not implemented: classifier-free guidance
  pkg/generation_config.json
  leave guidance_scale out                 nothing was generated""", before=config(guidance_scale=2.0)),
    Wrong("unknown option", (*GENERATE, "generate.options.forced_eos_tokenid=2"), """\
forced_eos_tokenid is not an option of generation
  generate.options
  did you mean  forced_eos_token_id ?      nothing was generated"""),
    Wrong("unknown setting", (*GENERATE, "generate.tempreature=1"), """\
generate.tempreature is not a setting      command line
  did you mean  generate.temperature ?     nothing was started"""),
    Wrong("end token that is a text", (*GENERATE, "run.dir=run"), """\
eos_token_id is '</s>', which is not what it takes
  pkg/generation_config.json
  nothing was started""", before=config(eos_token_id="</s>")),
    Wrong("more returns than beams", (*GENERATE, "generate.num_beams=2", "generate.num_return_sequences=3", "run.dir=run"), """\
num_return_sequences is 3; 2 beams have 2 results
  generate.num_return_sequences
  nothing was started"""),
    Wrong("token beyond the vocabulary", (*GENERATE, "generate.suppress_tokens=[5,300]", "run.dir=run"), """\
suppress_tokens names token 300; the vocabulary has 300
  generate.suppress_tokens
  nothing was generated
  stopped in generate; log: run/stages/generate/log""", left=FAILED_RUN),
    Wrong("prompt longer than the context", ("generate", "model.path=pkg", f"prompt={'1 and ' * 60}", "run.dir=run"), """\
a prompt of 121 tokens and 64 new ones need 185 positions; the model has 64
  generate.max_new_tokens
  shorten the prompt
  stopped in generate; log: run/stages/generate/log""", left=FAILED_RUN),
    Wrong("tokenizer of another model", ("generate", "model.path=pkg", "prompt=1 and <more>", "generate.max_new_tokens=5"), """\
the vocabulary of 301 is larger than the embedding of 300
  pkg/tokenizer.json
  the tokenizer's largest id is 300 ('<more>'); the embedding has 300 rows
  try  model.config.vocab_size=301  for a new model, or tokenizer.source=model
  nothing was started""", before=smaller_embedding),
    Wrong("chat without a template", (*GENERATE, "generate.chat=true", "run.dir=run"), """\
the tokenizer has no chat template         pkg/tokenizer.json
  messages need one, or the tokens of ChatML: <|im_start|>, <|im_end|>
  give the template, or the file that holds it:
  try  tokenizer.chat_template=template.jinja
  stopped in generate; log: run/stages/generate/log""", left=FAILED_RUN),
    Wrong("template that raises", (*GENERATE, "generate.chat=true", f"tokenizer.chat_template=\"{RAISES}\"", "run.dir=run"), """\
the chat template refuses it: no questions today; the roles are user
  prompt 1
  nothing was generated
  stopped in generate; log: run/stages/generate/log""", left=FAILED_RUN),
    Wrong("template that wants another role", (*GENERATE, "generate.chat=true", f"tokenizer.chat_template=\"{ANSWERED}\"", "run.dir=run"), """\
the chat template refuses it: a system turn comes first; the roles are user
  prompt 1
  nothing was generated
  stopped in generate; log: run/stages/generate/log""", left=FAILED_RUN),
    Wrong("a prompt for a conversation", ("chat", "model.path=pkg", "prompt=hello"), """\
prompt=hello decides nothing in a conversation
  command line
  turns are typed, or come line by line from a file:  hierarchos chat ... < FILE
  nothing was started"""),
    Wrong("windows that do not meet", ("evaluate", "model.path=pkg", "data=jsonl", "data.path=rows.jsonl", "train.sequence_length=32", "evaluate.stride=33"), """\
evaluate.stride=33 leaves tokens out of windows of 32
  configuration
  try  evaluate.stride=16                  nothing was started""", {"rows.jsonl": '{"text": "1 and 1"}\n' * 9}),
    Wrong("beams in a conversation", ("chat", "model.path=pkg", "generate.num_beams=3", "tokenizer.chat_template=\"{{ messages }}\""), """\
a conversation has one answer that is written as it is read
  leave out num_beams, penalty_alpha, num_return_sequences
  nothing was started"""),
    Wrong("choices without a file", CHOICES, """\
evaluate.choices has to be given           needed by choices
  For the stage `choices`: a JSON-lines file of {"context": text, "choices": [texts], "answer": number from 0}.
  try  evaluate.choices=...
  nothing was started"""),
    Wrong("question without choices", (*CHOICES, "evaluate.choices=q.jsonl"), """\
a question has context, choices, answer; this row has context
  q.jsonl:2
  nothing was started""",
          {"q.jsonl": '{"context": "a", "choices": ["b", "c"], "answer": 0}\n{"context": "a"}\n'}),
    Wrong("answer that is no choice", (*CHOICES, "evaluate.choices=q.jsonl"), """\
answer is 2; it is a number from 0 to 1    q.jsonl:1
  nothing was started""", {"q.jsonl": '{"context": "a", "choices": ["b", "c"], "answer": 2}\n'}),
    Wrong("rows to show that are no number", ("tokens", "--rows", "few", "data=text", "data.path=t.txt"), """\
--rows is 'few'; it takes a whole number   command line
  nothing was started"""),
]


@pytest.mark.parametrize(**by_name(ROWS))
def test_generation(row, check):
    check(row)
