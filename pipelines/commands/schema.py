"""usage: hierarchos schema [GROUP] [--write]

Prints the JSON Schema of all settings, or of the files of one group (model, data, ...). --write puts all of them into configs/schema/ and
adds to each YAML file of ./configs the comment by which editors find them.
"""
from __future__ import annotations

import json
from pathlib import Path

from hierarchos.errors import UserError, nearest
from pipelines.commands.words import take
from pipelines.settings.folders import Folders
from pipelines.settings.json_schema import LINE, editor_line, files, group_schema, whole_schema


def run(words: list[str]) -> int:
    """Prints or writes."""
    flags, names = take(words, "--write", names=True)
    if flags:
        print("\n".join(write(Path("configs"))))
        return 0
    print(json.dumps(chosen(names), indent=1))
    return 0


def chosen(names: list[str]) -> dict:
    """The whole schema, or that of the named group."""
    from pipelines.settings.schema import groups

    if not names:
        return whole_schema()
    if names[0] not in groups():
        raise UserError(f"{names[0]} is not a group of settings", where="command line", nearest=nearest(names[0], groups()),
                        hint=f"there is: {', '.join(group for group in groups() if '.' not in group)}", outcome=None)
    return group_schema(names[0])


def write(configs: Path) -> list[str]:
    """Writes configs/schema/*.json and the missing lines; returns what to say."""
    (configs / "schema").mkdir(parents=True, exist_ok=True)
    for name, schema in files(Folders.find()).items():
        (configs / "schema" / name).write_text(json.dumps(schema, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    changed = [path for path in sorted(configs.rglob("*.yaml")) if add_line(path, configs)]
    return [f"schemas: {configs / 'schema'}", *(f"line added: {path}" for path in changed)]


def add_line(path: Path, configs: Path) -> bool:
    """Puts the editor's comment after the leading comments of a file, or corrects it; whether the file changed."""
    text = path.read_text(encoding="utf-8")
    wanted = editor_line(path.relative_to(configs).with_suffix("").as_posix())
    lines = [line for line in text.splitlines() if not line.startswith(LINE)]
    head = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    new = "\n".join([*lines[:head], wanted, *lines[head:]]) + "\n"
    if new != text:
        path.write_text(new, encoding="utf-8")
    return new != text
