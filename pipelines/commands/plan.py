"""usage: hierarchos plan [PIPELINE] [KEY=VALUE ...] [--no-probe]

Says what a run would do and need before it starts: each stage and why it runs or is taken from the cache; rows, tokens and steps; memory by
kind against what the device can give now, with settings that would fit where it cannot; disk; and the time, from four steps that are
measured and thrown away (--no-probe leaves them out). Nothing is trained; tokens are kept in the stage cache, where the run finds them.
Status 4 where the run does not fit.
"""
from __future__ import annotations

from pipelines import exits
from pipelines.commands.config import split
from pipelines.commands.words import take
from pipelines.settings.folders import Folders


def run(words: list[str]) -> int:
    """Prints the plan."""
    flags, rest = take(words, "--no-probe", names=True)
    folders = Folders.find()
    pipeline, overrides = split(rest, folders)
    from pipelines import execute
    from pipelines.forecast import forecast

    job = execute.prepare(pipeline, overrides, folders)
    found = forecast(job, probe="--no-probe" not in flags)
    print("\n".join(found.lines()))
    return exits.DEVICE if found.fits is False else exits.DONE
