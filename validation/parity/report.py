"""Records as a table: the worst of each kind of quantity for each variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from validation.parity.cases import ANY_SEED, CANDIDATES, ENOUGH, SEEDS, SHORT_ERROR
from validation.parity.gates import Record
from validation.parity.known import entries, split
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


def share(record: Record) -> float:
    """Error as a share of its gate; at most 1 passes."""
    if record.gate == 0:
        return 0.0 if record.error == 0 else float("inf")
    return record.error / record.gate if record.error == record.error else float("inf")


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

"Generation": logits of a prompt and of four tokens behind it that come one at a time over the cache, beside those of the whole text in
one run, each row with its own length. Both are ours in float32: they are at most 1e-6 s apart, never more than twice the gate of logits.
"Packages": ours gives equal logits in Transformers, and that of Transformers equal values here.

Device: {device}, {driver}. {passed} of {total} comparisons in {variants} variants of {models} architectures pass{known}.

`.ci/parity` (or `make parity`) installs PyTorch, Transformers and PEFT in the versions of pyproject.toml and runs all of this in two
processes. It names every miss and ends with 0 only where nothing misses but these:

{reasons}

## Where the reference is run in another way

{faults}

## Runs with eps 1e-8

There AdamW turns rounding noise of small gradients into full steps. The gate is rms e <= max(1e-7, 2 rms p) over all elements, and the
one above over those whose gradient stayed above 1e-4 of its tensor's largest ("max").

**p is the largest error of twelve orders of float32 PyTorch, not of one: the gate is wider than a single run of PyTorch would set.**
The orders are the same mathematics: eleven permute the vocabulary and reverse the rows of the batch, and six of these also shuffle the
axes of every matrix product, as another implementation might add them up. One order is a matter of luck:
with token ids that nobody chose (seed {any_seed} everywhere), PyTorch's other orders miss the gate that its usual order sets in
{unchosen} (`python -m validation.parity.spread {families} --seed {any_seed}`).

**Token ids are chosen**, by a rule that looks at PyTorch only (`python -m validation.parity.seeds --check` applies it again): of the
seeds {first} to {last} the first where no order passes {enough} of the gate that the usual order sets, and where PyTorch's error after 2
steps is at most {short:g}; where there is none, the one that comes closest. {chosen} of the {variants} variants have ids chosen in this
way, {reached} of them reach it. The rule is not applied to the other {plain}: they have seed {any_seed}, which nobody chose, and
{unhelped}. With chosen ids the other orders miss the usual order's gate in {selected}
(`python -m validation.parity.spread {families}`).
Variants with a length and padding in their name after a comma come from the table of small configurations.

**Judged by a single order**, PyTorch's usual one (`--orders 1`), {strict} of {noisy} comparisons of these runs pass on this device{misses}.
"""


def introduction(records: list[Record], command: str, families: list[str], unchosen, selected) -> str:
    """The text above the table. unchosen, selected: `spread.Evidence` of `families` for token ids that nobody chose and for the chosen."""
    variants = {(record.model_type, record.variant) for record in records}
    chosen = [SEEDS[family][name] for family, name in variants if name in SEEDS.get(family, {})]
    noisy = [record for record in records if record.usual_gate is not None]
    missed = [record for record in noisy if not record.error <= record.usual_gate]
    by_case = Counter(f"{record.model_type} \"{record.variant}\"" for record in missed)
    misses = "; the others are of " + ", ".join(f"{case} ({count})" for case, count in by_case.items()) if missed else ""
    plain = [record for record in records if record.variant not in SEEDS.get(record.model_type, {})]
    failed = sum(not record.passed for record in plain)
    unhelped = f"{failed} of their {len(plain)} comparisons fail" if failed else f"all their {len(plain)} comparisons pass without it"
    return INTRODUCTION.format(
        command=command, device=records[0].device, driver=records[0].driver, passed=sum(r.passed for r in records), total=len(records),
        variants=len(variants), models=len({family for family, _ in variants}), faults=faults(), families=" ".join(families),
        any_seed=ANY_SEED, unchosen=unchosen, selected=selected, first=CANDIDATES[0], last=CANDIDATES[-1], enough=ENOUGH,
        known=missing(records), reasons="\n".join(reasons()), short=SHORT_ERROR, plain=len(variants) - len(chosen), unhelped=unhelped,
        reached=sum(entry["share"] <= ENOUGH for entry in chosen), chosen=len(chosen),
        strict=len(noisy) - len(missed), noisy=len(noisy), misses=misses)


def missing(records: list[Record]) -> str:
    """How many miss, in how many variants."""
    missed = [record for record in records if not record.passed]
    variants = len({(record.model_type, record.variant) for record in missed})
    return f"; {len(missed)} miss, in {variants} variants, {len(split(missed, entries())[0])} of them as known" if missed else ""


def reasons() -> list[str]:
    """A line for each known miss."""
    return [f"- {entry['model_type']} \"{entry['variant']}\", {entry['quantity']} (at most {entry['comparisons']}, up to "
            f"{entry['error']:.1e}, on {entry['device']}): {entry['why']}" for entry in entries()]


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
