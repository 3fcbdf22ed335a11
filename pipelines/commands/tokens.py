"""hierarchos tokens data=jsonl data.path=FILE [model=local model.path=FOLDER] [KEY=VALUE ...] [--rows N] [--ids]

Shows rows as they are trained on, before anything is paid for: trained tokens are green, the others dim (without colours: [trained]).
Lists the rows that are left out or cut, with reasons, and audits the chat template: exactly one BOS, the end-of-turn token trained,
and the stop tokens of the generation config the same. Settings are those of `hierarchos train`; nothing is written.

  --rows N   rows that are shown (3)
  --ids      the ids too
"""

from __future__ import annotations

import sys

from hierarchos.errors import UserError

SHOWN = 3
LISTED = 10
PROBLEMS = 2  # status where the audit finds something


def run(words: list[str]) -> int:
    """Reads the rows, shows the first ones and the account of all."""
    count, ids, words = flags(words)
    tokenizer, rows, options, ends, report = opened(words)
    from hierarchos.data.audit import Audit
    from hierarchos.data.encode import Encoder

    audit, left_out, cut = Audit(tokenizer, Encoder(tokenizer, options).wants_bos), [], []
    for number, row in enumerate(rows):
        audit.add(row)
        if number < count:
            show(row, tokenizer, ids)
        if row.fault is not None:
            left_out.append(f"{row.where}  left out: {row.fault}")
        elif row.cut:
            cut.append(f"{row.where}  cut: {row.cut} tokens lost")
    for lines in (left_out, cut):
        for line in lines[:LISTED]:
            print(line)
        if len(lines) > LISTED:
            print(f"and {len(lines) - LISTED} more")
    for line in report.lines():
        print(line)
    return account(audit, ends(audit), sum(report.summary()["bad_rows"].values()))


def flags(words: list[str]) -> tuple[int, bool, list[str]]:
    """Rows to show, whether with ids, and the settings."""
    count, rest, pending = SHOWN, [], iter(words)
    for word in pending:
        if word == "--rows" or word.startswith("--rows="):
            value = word.partition("=")[2] or next(pending, "")
            if not value.isdigit():
                raise UserError(f"--rows is {value!r}; it takes a whole number", where="command line")
            count = int(value)
        elif word != "--ids":
            rest.append(word)
    return count, "--ids" in words, rest


def opened(words: list[str]):
    """The tokenizer, the rows, how they are encoded, a function that gives the generation config's stop tokens, and what is no row."""
    from hierarchos.data.audit import rows_of
    from hierarchos.data.rows import RowReport
    from pipelines.execute import prepare
    from pipelines.settings.folders import Folders
    from pipelines.stage import Context
    from pipelines.stages.acquire import Acquire
    from pipelines.stages.tokenize import all_examples, encode_options, make_tokenizer, with_prompts

    job = prepare("train", words, Folders.find(None))
    context = Context(job.config, None, job.progress)
    found = Acquire().run(context)
    config = with_prompts(job.config, found)
    tokenizer, options = make_tokenizer(config, found), encode_options(config)
    report = RowReport("skip")
    rows = rows_of(all_examples(config, found, report), tokenizer, options)
    return tokenizer, rows, options, lambda audit: generation_ends(found["model"], audit), report


def generation_ends(folder: str | None, audit) -> tuple[int, ...] | None:
    """Stop tokens of the package, which stay in force where an adapter is trained; an export of the whole model writes the trained ones."""
    if folder is None:
        return None
    from hierarchos.generation.policy import package_policy

    return package_policy(folder).eos_token_id


def show(row, tokenizer, ids: bool) -> None:
    """One row: its tokens coloured by whether they are trained."""
    trained = int((row.weights[1:] > 0).sum())
    print(f"{row.where}  {len(row.ids)} tokens, {trained} trained" + (f"  left out: {row.fault}" if row.fault else ""))
    print(
        "  "
        + "".join(
            piece(tokenizer, int(number), weight > 0 and place > 0, ids)
            for place, (number, weight) in enumerate(zip(row.ids, row.weights, strict=True))
        )
    )


def piece(tokenizer, number: int, trained: bool, ids: bool) -> str:
    """A token's text, marked where it is trained."""
    text = tokenizer.decode([number], skip_special_tokens=False).replace("\n", "\\n")
    text = f"{text}({number})" if ids else text
    if sys.stdout.isatty():
        return f"\x1b[32m{text}\x1b[0m" if trained else f"\x1b[2m{text}\x1b[0m"
    return f"[{text}]" if trained else text


def account(audit, ends, bad: int) -> int:
    """Totals and the audit; the status. bad: rows that could not be read as what they should be."""
    share = 100 * audit.trained / max(audit.tokens, 1)
    left_out = audit.rows - audit.used + bad
    rows = f"{audit.rows + bad} rows: {audit.used} used, {left_out} left out"
    print(f"{rows}; {audit.tokens} tokens, {audit.trained} trained ({share:.0f} %)")
    for number, count in audit.ends.most_common():
        print(f"end token trained: {number} {audit.tokenizer.core.id_to_token(number)} ({count} rows)")
    problems = audit.problems(ends)
    for problem in problems:
        print(f"audit: {problem}")
    if not problems:
        print("audit: one BOS at most, every row ends with a trained end token, the generation config stops at it")
    return PROBLEMS if problems else 0
