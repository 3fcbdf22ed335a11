"""What is trained: completions and assistant turns with the token that ends them; one BOS; nothing left is an error."""

import pytest
from tokenizers import processors

from hierarchos.data.chat import CHATML
from hierarchos.data.encode import encode_examples
from hierarchos.data.formats import read_examples
from hierarchos.data.options import EncodeOptions, RowOptions
from hierarchos.data.rows import Row, RowReport
from hierarchos.data.tokenizer import TextTokenizer
from hierarchos.data.tokenizer_training import train_tokenizer
from hierarchos.errors import UserError

WORDS = ["the quick brown fox jumps over the lazy dog and then some more " * 4]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(WORDS, 320, chat=True)


def encode(tokenizer, *fields, report=None, rows=None, **options):
    report = report or RowReport()
    numbered = [Row("rows.jsonl", number, row) for number, row in enumerate(fields, 1)]
    return encode_examples(read_examples(numbered, RowOptions(**(rows or {})), report), tokenizer, EncodeOptions(**options), report)


def trained_text(tokenizer, file):
    return tokenizer.decode(file.ids[file.trained > 0], skip_special_tokens=False)


def test_a_text_is_trained_whole_with_its_end(tokenizer):
    file = encode(tokenizer, {"text": "the fox"})
    assert file.ids.tolist() == [*tokenizer.encode("the fox"), tokenizer.eos_id]
    assert file.trained.all()
    assert file.trained_tokens == len(file.ids) - 1


def test_prompts_are_context_only_unless_asked_for(tokenizer):
    row = {"prompt": "the quick", "completion": " brown fox"}
    assert trained_text(tokenizer, encode(tokenizer, row)) == " brown fox<|endoftext|>"
    assert trained_text(tokenizer, encode(tokenizer, row, train_on_prompt=True)) == "the quick brown fox<|endoftext|>"


def test_the_end_is_trained_also_when_it_is_the_pad_token():
    plain = train_tokenizer(WORDS, 300, pad=False)
    same = TextTokenizer(plain.core, eos="<|endoftext|>", pad="<|endoftext|>")
    report = RowReport()
    file = encode(same, {"text": "dog"}, report=report)
    assert same.pad_id == same.eos_id == file.ids[-1]
    assert file.trained[-1] == 1
    assert report.notices == ["end tokens trained: 0 <|endoftext|> (1 times)"]
    assert file.meta["stop_ids"] == [0]


def test_an_end_that_is_there_already_is_not_doubled(tokenizer):
    assert encode(tokenizer, {"text": "dog<|endoftext|>"}).ids.tolist().count(tokenizer.eos_id) == 1


def test_a_tokenizer_without_an_end_token_is_refused():
    plain = train_tokenizer(WORDS, 300)
    with pytest.raises(UserError, match="the tokenizer has no end token"):
        encode(TextTokenizer(plain.core), {"text": "dog"})


CHAT = {
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "the fox"},
        {"role": "assistant", "content": "over"},
        {"role": "user", "content": "the dog"},
        {"role": "assistant", "content": "lazy"},
    ]
}


def test_assistant_turns_are_trained_with_their_end_of_turn(tokenizer):
    report = RowReport()
    file = encode(tokenizer, CHAT, report=report)
    assert trained_text(tokenizer, file) == "over<|im_end|>lazy<|im_end|>"
    assert file.meta["stop_ids"] == [tokenizer.id_of("<|im_end|>")]
    assert report.notices == ["end tokens trained: 3 <|im_end|> (2 times)"]


def test_the_mask_equals_what_transformers_generation_marks_say(tokenizer):
    marked = CHATML.replace(
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}",
        "{{ '<|im_start|>' + message['role'] + '\\n' }}{% if message['role'] == 'assistant' %}{% generation %}"
        "{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}",
    )
    assert marked != CHATML
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.core)
    expected = theirs.apply_chat_template(
        CHAT["messages"], chat_template=marked, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    file = encode(tokenizer, CHAT, chat_template=marked)
    assert file.ids.tolist() == expected["input_ids"]
    assert file.trained.tolist() == expected["assistant_masks"]


def test_pairs_can_be_written_as_chats(tokenizer):
    row = {"instruction": "jump", "input": "over", "output": "the dog"}
    file = encode(tokenizer, row, rows={"template": "chat"})
    text = tokenizer.decode(file.ids, skip_special_tokens=False)
    assert text == "<|im_start|>user\njump\n\nover<|im_end|>\n<|im_start|>assistant\nthe dog<|im_end|>\n"


def test_a_template_without_end_of_turn_gets_the_end_token(tokenizer):
    turns = "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '\\n' }}{% endfor %}"
    template = turns + "{% if add_generation_prompt %}assistant:{% endif %}"
    file = encode(tokenizer, {"messages": CHAT["messages"][1:3]}, chat_template=template)
    assert trained_text(tokenizer, file) == "over<|endoftext|>"


def test_chatml_on_a_tokenizer_without_its_tokens_is_refused():
    plain = train_tokenizer(WORDS, 300)
    with pytest.raises(UserError, match="the tokenizer has no chat template"):
        encode(plain, CHAT)
    with pytest.raises(UserError, match=r"the chat template writes <\|im_(start|end)\|>, which is not a token"):
        encode(plain, CHAT, chat_template=CHATML)


def test_a_template_that_refuses_the_system_turn_names_the_fixes(tokenizer):
    template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
    with pytest.raises(UserError) as caught:
        encode(tokenizer, CHAT, chat_template=template)
    assert str(caught.value).splitlines() == [
        "the chat template refuses it: no system role; the roles are system,user,assistant,user,assistant",
        "  rows.jsonl:1",
        "  try  data.system=merge_into_user  or  data.system=drop",
        "  try  data.on_bad_row=skip  to leave such rows out and count them",
        "  nothing was started",
    ]
    merged = encode(tokenizer, CHAT, chat_template=template, rows={"system": "merge_into_user"})
    assert "user\nbe brief\n\nthe fox" in tokenizer.decode(merged.ids, skip_special_tokens=False)


def test_a_template_that_drops_the_system_turn_is_noticed(tokenizer):
    template = "{% for message in messages if message['role'] != 'system' %}" + CHATML.removeprefix("{% for message in messages %}")
    with pytest.raises(UserError, match="the chat template leaves the system turn out"):
        encode(tokenizer, CHAT, chat_template=template)


def test_turns_of_one_role_are_joined_on_request(tokenizer):
    turns = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]}
    file = encode(tokenizer, turns, rows={"merge_same_role": True})
    assert "user\na\n\nb<|im_end|>" in tokenizer.decode(file.ids, skip_special_tokens=False)


def test_a_template_that_is_no_jinja_is_refused_with_its_line(tokenizer):
    with pytest.raises(UserError, match=r"the chat template is not Jinja"):
        encode(tokenizer, CHAT, chat_template="{% for")


@pytest.mark.parametrize("template_writes_bos", [True, False])
@pytest.mark.parametrize("tokenizer_adds_bos", [True, False])
def test_there_is_never_more_than_one_bos(template_writes_bos, tokenizer_adds_bos):
    tokenizer = train_tokenizer(WORDS, 320, chat=True, bos=True)
    if not tokenizer_adds_bos:
        tokenizer.core.post_processor = processors.ByteLevel(trim_offsets=True)
        tokenizer.__dict__.pop("adds_bos", None)
    template = ("{{ bos_token }}" if template_writes_bos else "") + CHATML
    file = encode(tokenizer, CHAT, chat_template=template)
    assert file.ids.tolist().count(tokenizer.bos_id) == int(template_writes_bos or tokenizer_adds_bos)
    assert trained_text(tokenizer, file) == "over<|im_end|>lazy<|im_end|>"


def test_add_bos_can_be_forced_or_forbidden():
    tokenizer = train_tokenizer(WORDS, 320, bos=True)
    assert encode(tokenizer, {"text": "dog"}).ids[0] == tokenizer.bos_id
    assert tokenizer.bos_id not in encode(tokenizer, {"text": "dog"}, add_bos="never").ids
    with pytest.raises(UserError, match="the tokenizer has no BOS token"):
        encode(train_tokenizer(WORDS, 320), {"text": "dog"}, add_bos="always")


def test_everything_masked_is_refused_with_one_row_and_where_it_was_cut(tokenizer):
    prompt, completion = "z" * 40, "yyyy"
    assert len(tokenizer.encode(prompt)) == 40 and len(tokenizer.encode(completion)) == 4
    with pytest.raises(UserError) as caught:
        encode(tokenizer, {"prompt": prompt, "completion": completion}, max_length=16, on_long_row="truncate")
    assert str(caught.value).splitlines() == [
        "0 of 45 tokens are trained                 rows.jsonl:1",
        "  1 rows: cut before its first trained token",
        "  this row: 40 tokens before the first trained one, 5 from there; cut after 17",
        "  try  train.sequence_length=44  or  data.on_long_row=split",
        "  nothing was started",
    ]


def test_rows_with_nothing_to_train_are_left_out_and_counted(tokenizer):
    report = RowReport()
    rows = [{"prompt": "z" * n, "completion": "yyyy"} for n in (40, 4, 14)]
    file = encode(tokenizer, *rows, report=report, max_length=16, on_long_row="truncate")
    assert len(file) == report.used == 2
    assert report.summary()["bad_rows"] == {"cut before its first trained token": 1}
    assert (report.truncated_rows, report.truncated_tokens) == (1, 2)
    assert "1 rows cut at train.sequence_length, 2 tokens lost" in report.lines()


@pytest.mark.parametrize(("policy", "documents"), [("split", 2), ("drop", 1)])
def test_long_documents_are_split_or_dropped(tokenizer, policy, documents):
    assert len(encode(tokenizer, {"text": "z" * 40}, {"text": "dog"}, max_length=16, on_long_row=policy)) == documents


def test_long_documents_can_be_an_error(tokenizer):
    with pytest.raises(UserError, match="a document of 41 tokens where 16 fit"):
        encode(tokenizer, {"text": "z" * 40}, max_length=16, on_long_row="error")


def test_rows_of_token_ids_keep_their_labels_and_weights(tokenizer):
    row = {"input_ids": [0, 5, 6, 7, 1], "labels": [-100, -100, 6, 7, -100]}
    file = encode(tokenizer, {**row, "attention_mask": [0, 1, 1, 1, 0], "loss_weights": [1, 1, 0.5, 2, 1]})
    assert file.ids.tolist() == [5, 6, 7]
    assert file.trained.tolist() == [0, 1, 1]
    assert file.weights.tolist() == [0, 0.5, 2]


def test_ids_beyond_the_vocabulary_are_refused(tokenizer):
    with pytest.raises(UserError, match="input_ids holds 99999; the vocabulary ends at"):
        encode(tokenizer, {"input_ids": [1, 99999]})


def test_no_rows_at_all_is_an_error(tokenizer):
    with pytest.raises(UserError, match="there are no rows"):
        encode(tokenizer)


def test_a_tokenizer_with_prefix_spaces_masks_by_characters():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {"</s>": 0, "<unk>": 1, "▁Q:": 2, "▁a": 3, "▁b": 4, "▁": 5, "a": 6, "b": 7, "c": 8, "▁c": 9, "▁d": 10, "Q": 11, ":": 12}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer = TextTokenizer(core, eos="</s>")
    assert not tokenizer.splits_exactly
    file = encode(tokenizer, {"prompt": "Q: a", "completion": " b c"})
    assert file.ids.tolist() == [2, 3, 4, 9, 0]
    assert file.trained.tolist() == [0, 0, 1, 1, 1]
