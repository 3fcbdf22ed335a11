"""What `hierarchos bench lora` prints: a row for each side, then in words who is slower and by how much."""
from __future__ import annotations

import json

GATE, NOISE, BUSY = 1e-3, 0.03, 0.5       # of a loss in FP32; a ratio that near to 1 is no difference; load by processor that spoils times
DONE, WRONG = 0, 3


def tell(found: dict, as_json: bool = False) -> int:
    """Prints what was found; the status is WRONG where our losses in FP32 are not PEFT's."""
    compare(found)
    print(json.dumps(found, indent=1) if as_json else "\n".join(lines(found)), flush=True)
    return WRONG if found["wrong"] else DONE


def compare(found: dict) -> None:
    """Adds to each other side how long ours takes beside it (above 1: we are slower) and how far the losses are apart."""
    mine, *others = found["sides"]
    for other in others:
        other["ratio"] = mine["step_seconds"] / other["step_seconds"]
        apart = [abs(a - b) for a, b in zip(mine["losses"], other["losses"], strict=True)]
        other["loss_difference"] = next((one for one in apart if one != one), max(apart))       # not a number is the largest
    exact = [one for one in others if one["precision"] == mine["precision"] == "fp32"]
    found["wrong"] = any(not one["loss_difference"] <= GATE for one in exact)


def lines(found: dict) -> list[str]:
    """For people."""
    others = found["sides"][1:]
    told = [f"{found['device']}, {found['driver']}", *sorted({facts_of(one) for one in others}),
            f"LoRA of rank 8 on all seven projections, {found['what']}, 1 x {found['length']} tokens; median of {found['steps'] - 1} steps",
            *busy(found), "", f"{'':<40}{'a step':>10}  {'tokens/s':>9}  {'ours takes':>10}  {'losses differ by':>16}"]
    told += [row(one, found["length"]) for one in found["sides"]]
    verdicts = [verdict(one) for one in others]
    told += ["", *verdicts, *found["missing"]]
    if any(one["ratio"] > 1 + NOISE for one in others) and found["software"]:
        told.append(f"{found['device']} computes on the processor as well: it is for tests, and training on it is not worth it")
    if found["wrong"]:
        told.append(f"a loss differs from PEFT's in FP32 by more than {GATE:g}: one of the two is wrong")
    return told


def facts_of(side: dict) -> str:
    """What PEFT ran on."""
    return (f"PyTorch {side['torch']}, Transformers {side['transformers']}, PEFT {side['peft']}, {side['threads']} threads, "
            f"BF16 in this processor: {side['bf16_units']}")


def busy(found: dict) -> list[str]:
    """Says that the times are not to be trusted."""
    if found["load"] <= BUSY * found["cores"]:
        return []
    return [f"other work was here (load {found['load']:.1f} on {found['cores']} processors): repeat it on an idle machine"]


def row(side: dict, length: int) -> str:
    """A line of the table."""
    ratio = f"{side['ratio']:>9.2f}x" if "ratio" in side else f"{'':>10}"
    apart = f"{side['loss_difference']:>16.2g}" if "ratio" in side else f"{'':>16}"
    return (f"{side['who'] + ', ' + side['precision'].upper():<40}{side['step_seconds']:>8.3f} s  {length / side['step_seconds']:>9.1f}  "
            f"{ratio}  {apart}").rstrip()


def verdict(side: dict) -> str:
    """One sentence: slower is called slower."""
    name, ratio = f"{side['who']} in {side['precision'].upper()}", side["ratio"]
    if abs(ratio - 1) <= NOISE:
        return f"as fast as {name}"
    if ratio > 1:
        return f"SLOWER than {name}: a step takes {ratio:.2f} times as long here"
    return f"faster than {name}: it takes {1 / ratio:.2f} times as long there"
