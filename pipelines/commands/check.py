"""usage: hierarchos check [FILES]

Composes and checks every pipeline and every experiment, or the given files of configs/experiment/, without running anything.
"""
from __future__ import annotations

import sys
from pathlib import Path

from hierarchos.errors import UserError, nearest
from pipelines.settings.folders import Folders


def run(words: list[str]) -> int:
    """Prints a line for each file; status 2 when one is wrong."""
    folders = Folders.find()
    found = checked(targets(words, folders), folders)
    for title, mistakes in found:
        print(f"{title}\n{mistakes}" if mistakes else f"{title}: fine", file=sys.stderr if mistakes else sys.stdout)
    wrong = sum(mistakes is not None for _, mistakes in found)
    print(f"{len(found)} checked, {wrong} wrong")
    return 2 if wrong else 0


def checked(aims: list[tuple[str, list[str]]], folders: Folders) -> list[tuple[str, str | None]]:
    """Title and mistakes of each."""
    from pipelines.settings.many import many

    with many(folders):
        return [check(*aim, folders) for aim in aims]


def targets(words: list[str], folders: Folders) -> list[tuple[str, list[str]]]:
    """Pipeline and overrides of everything to check."""
    if not words:
        experiments = [(pipeline_of(folders, name), [f"experiment={name}"]) for name in folders.options("experiment")]
        return [(name, []) for name in folders.options("pipeline")] + experiments
    return [(pipeline_of(folders, name), [f"experiment={name}"]) for name in map(experiment_name, words)]


def experiment_name(word: str) -> str:
    """configs/experiment/mine.yaml -> mine."""
    path = Path(word)
    if not path.is_file():
        if path.is_dir():
            raise UserError(f"{word} is a folder", where="command line", hint="hierarchos check  without a name looks at everything")
        beside = [str(other) for other in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        raise UserError(f"there is no file {word}", where="command line", nearest=nearest(word, beside))
    if "experiment" not in path.parts:
        raise UserError(f"{word} is not in a folder experiment/", where="command line", hint="only experiment files are checked by name")
    return Path(*path.parts[path.parts.index("experiment") + 1:]).with_suffix("").as_posix()


def pipeline_of(folders: Folders, experiment: str) -> str:
    """The pipeline that the command in an experiment's first line names; train without one."""
    path = folders.file(f"experiment/{experiment}")
    words = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0].split() if path else []
    return words[2] if len(words) > 2 and words[:2] == ["#", "hierarchos"] and words[2] in folders.options("pipeline") else "train"


def check(pipeline: str, words: list[str], folders: Folders) -> tuple[str, str | None]:
    """Title and mistakes of one composition; missing values are fine here, since a person gives them later."""
    from pipelines.settings.compose import check_request, compose, required_keys
    from pipelines.settings.effect import without_effect
    from pipelines.settings.problems import raise_all
    from pipelines.settings.resolve import resolve

    title = " ".join(["hierarchos", pipeline, *words])
    try:
        request = check_request(pipeline, words, folders)
        config = resolve(compose(request), {}, required_keys(request))
        raise_all(without_effect(config, words))
    except UserError as error:
        return title, str(error)
    return title, None
