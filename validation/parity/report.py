"""Records as a table: the worst of each kind of quantity for each variant."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from validation.parity.cases import ANY_SEED, CANDIDATES, CLEAR, ENOUGH, SEEDS, STAND_INS
from validation.parity.gates import Record, share
from validation.tiny import FAULTS, NO_POSITIONS, UNLOADABLE

DOCS = Path(__file__).parents[2] / "docs" / "parity.md"
KINDS = (("ended with", "logits"), ("cached logits", "generation"), ("logits", "logits"), ("loss", "loss"),
         ("gradient of", "gradients"), ("no gradient", "gradients"),
         ("2 steps, eps 0.001, decay 0,", "2 steps, eps 1e-3"), ("10 steps, eps 0.001, decay 0.1,", "10 steps, eps 1e-3, decay 0.1"),
         ("decay 0.1, rms", "10 steps, eps 1e-8, decay 0.1, rms"), ("decay 0.1, max of firm", "same, max"), ("package", "packages"))


def kind_of(quantity: str) -> str:
    """The column of a quantity."""
    if "package" in quantity:
        return "packages"
    return next(column for part, column in KINDS if part in quantity)


def worst(records: Iterable[Record]) -> dict[tuple[str, str], dict[str, Record]]:
    """(model_type, variant) -> column -> the record closest to its gate."""
    table: dict[tuple[str, str], dict[str, Record]] = {}
    for record in records:
        row = table.setdefault((record.model_type, record.variant), {})
        column = kind_of(record.quantity)
        if column not in row or share(record) > share(row[column]):
            row[column] = record
    return table


INTRODUCTION = """# Parity with Transformers

Written by `{command}`; not edited by hand. Each cell is the error of the worst tensor and the gate
that it must not pass. With e = |ours - float64|, p = |float32 PyTorch - float64| and s = max(1, largest |float64|): max e is at most
max(2e-7 s, 2 max p); after 2 steps 2e-7 s without exception. The truth is Transformers with everything in float64.

"Generation": logits of a prompt and of four tokens behind it that come one at a time over the cache, each row with its own length, beside
those of the whole text so far in float64, by the gate of logits. (Over the cache and in one piece they have the same bits on CPU drivers:
generation.md.)
"Packages": ours gives equal logits in Transformers, and that of Transformers equal values here.

Device: {device}, {driver}. {passed} of {total} comparisons in {variants} variants of {models} architectures pass{missed}.

`.ci/parity` (or `make parity`) installs PyTorch, Transformers and PEFT in the versions of pyproject.toml and runs all of this in two
processes. It names every miss and ends with 1 where there is one.

## Where the reference is run in another way

{faults}

## Runs with eps 1e-8

There AdamW turns rounding noise of small gradients into full steps. The gate is rms e <= max(1e-7, 2 rms p) over all elements, and the
one above over those whose gradient stayed above 1e-4 of its tensor's largest ("max"). p is that of one run of PyTorch, as it is.

**Token ids are chosen**, by a rule that looks at PyTorch only. With ids that nobody chose (seed {any_seed} everywhere) a gate judges luck:
PyTorch itself, run {count} times as another implementation might (the axes of every matrix product shuffled, so that sums run in another
order, and every result moved by up to half a unit in its last place) and judged as a device is, misses
{unchosen}
(`python -m validation.parity.spread {families} --seed {any_seed}`).

The rule (`python -m validation.parity.seeds`): with a seed, {stand_ins} such runs come to so many times a gate as the worst of them does,
or their mean and three standard deviations if that is more; the stored seed is kept where they come to at most {enough}, else it is the
first of {first} to {last} where they do, or where they stay closest. No seed counts with which an input of a relu or a clamp comes closer
to its kink, in float64, than {clear} times the root mean square of what float32 PyTorch is off by there: the gradient of either side is
right then (`validation/parity/kinks.py`). In {agree} of {chosen} variants they come to at most 1, in {reached}
to {enough}, in the others to {furthest} at most. With these ids, {count} more such runs of PyTorch, by which nothing was chosen, miss
{selected}
(`python -m validation.parity.spread {families}`): what an implementation as good as PyTorch has to expect.
Variants with a length and padding in their name after a comma come from the table of small configurations.
"""


def introduction(records: list[Record], command: str, families: list[str], unchosen, selected) -> str:
    """The text above the table. unchosen, selected: `spread.Evidence` of `families` for token ids that nobody chose and for the chosen."""
    variants = {(record.model_type, record.variant) for record in records}
    shares = [SEEDS[family][name]["share"] for family, name in variants]
    return INTRODUCTION.format(
        command=command, device=records[0].device, driver=records[0].driver, passed=sum(r.passed for r in records), total=len(records),
        variants=len(variants), models=len({family for family, _ in variants}), missed=missing(records), faults=faults(),
        families=" ".join(families), any_seed=ANY_SEED, unchosen=unchosen, selected=selected, count=selected.count, stand_ins=STAND_INS,
        enough=ENOUGH, clear=CLEAR, first=CANDIDATES[0], last=CANDIDATES[-1], reached=sum(share <= ENOUGH for share in shares),
        agree=sum(share <= 1 for share in shares), chosen=len(shares), furthest=max(shares))


def missing(records: list[Record]) -> str:
    """How many miss, in how many variants."""
    missed = [record for record in records if not record.passed]
    variants = len({(record.model_type, record.variant) for record in missed})
    return f"; {len(missed)} miss, in {variants} variant{'s' if variants > 1 else ''}" if missed else ""


def faults() -> str:
    """Why and how, one line for each."""
    lines = [f"- {model_type} \"{name}\": attention \"{fault.attention}\"{'' if fault.padded else ', no padding'}, since {fault.why}"
             for (model_type, name), fault in FAULTS.items()]
    lines += [f"- {model_type} \"{name}\": our package is read into a model that is there, since from_pretrained fails: {why}"
              for (model_type, name), why in UNLOADABLE.items()]
    others = [f"- {', '.join(NO_POSITIONS)}: padded on the right only, since these take no positions and would count padding on the left",
              "- open-llama: Llama of Transformers with a LayerNorm on the embedding (validation/open_llama.py), since Transformers has",
              "  dropped Open-Llama itself"]
    return "\n".join([*lines, *others])


def markdown(records: list[Record], command: str, families: list[str], unchosen, selected) -> str:
    """The page in docs/: the introduction, then error / gate of the worst tensor in each cell."""
    columns = list(dict.fromkeys(column for _, column in KINDS))
    lines = [introduction(records, command, families, unchosen, selected),
             "| model | variant | " + " | ".join(columns) + " |", "|" + " --- |" * (len(columns) + 2)]
    for (model_type, variant), row in worst(records).items():
        lines.append(f"| {model_type} | {variant} | " + " | ".join(_cell(row.get(column)) for column in columns) + " |")
    return "\n".join(lines) + "\n"


def _cell(record: Record | None) -> str:
    if record is None:
        return ""
    if record.gate == 0:
        return "equal" if record.error == 0 else f"**{record.error:.1e}**"
    text = f"{record.error:.1e} / {record.gate:.1e}"
    return text if record.passed else f"**{text}**"


def line(records: list[Record]) -> str:
    """One variant in one line, for a person who waits."""
    (key, row), = worst(records).items()
    failed = [record for record in records if not record.passed]
    shares = ", ".join(f"{column} {share(record):.2f}" for column, record in row.items())
    text = f"{'ok  ' if not failed else 'FAIL'} {key[0]}: {key[1]} ({len(records)} comparisons; error / gate: {shares})"
    details = [f"       {r.quantity}: error {r.error:.2e}, gate {r.gate:.2e}, PyTorch {r.pytorch_error:.2e}" for r in failed[:6]]
    return "\n".join([text, *details])
