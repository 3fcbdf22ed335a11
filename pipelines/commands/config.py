"""usage: hierarchos config [PIPELINE] [KEY=VALUE ...] [--provenance]

Prints all settings of a pipeline (train, if none is named) as they would be used; with --provenance, behind each value the file and
line that gave it, "command line", or "default". Runs nothing; values that still have to be given are shown as ???.
"""
from __future__ import annotations

from hierarchos.errors import UserError, nearest
from pipelines.commands.words import take
from pipelines.settings.folders import Folders

COLUMN = 52          # where the origins stand


def run(words: list[str]) -> int:
    """Prints YAML, which can be saved as an experiment file."""
    flags, rest = take(words, "--provenance", names=True)
    folders = Folders.find()
    pipeline, overrides = split(rest, folders)
    print("\n".join(listing(pipeline, overrides, folders, "--provenance" in flags)))
    return 0


def split(words: list[str], folders: Folders) -> tuple[str, list[str]]:
    """The pipeline's name and its overrides."""
    if not words or "=" in words[0]:
        return "train", words
    names = folders.options("pipeline")
    if words[0] not in names:
        raise UserError(f"{words[0]} is not a pipeline", where="command line", nearest=nearest(words[0], names),
                        hint=f"there is: {', '.join(names)}", outcome=None)
    return words[0], words[1:]


def listing(pipeline: str, words: list[str], folders: Folders, provenance: bool) -> list[str]:
    """The lines of the tree."""
    from pipelines.settings.compose import check_request, compose, required_keys
    from pipelines.settings.provenance import origins
    from pipelines.settings.resolve import as_dict, resolve

    request = check_request(pipeline, words, folders)
    composed = compose(request)
    values = as_dict(resolve(composed, {}, required_keys(request)))
    return tree(values, origins(request) if provenance else None)


def tree(values: dict, found: dict[str, str] | None, prefix: str = "", depth: int = 0) -> list[str]:
    """Nested settings as YAML; found: origins to show behind the leaves."""
    lines = []
    for name, value in values.items():
        key = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, dict) and value:
            lines += [f"{'  ' * depth}{name}:", *tree(value, found, key, depth + 1)]
        else:
            lines.append(leaf(f"{'  ' * depth}{name}: {written(value)}", key, found))
    return lines


def leaf(text: str, key: str, found: dict[str, str] | None) -> str:
    """A value, and where it comes from."""
    from pipelines.settings.provenance import origin_of

    return text if found is None else f"{text:<{COLUMN - 1}} # {origin_of(key, found)}"


def written(value: object) -> str:
    """A value as YAML in one line."""
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()
