"""Every public complaint about other trainers has its tests (tests/pains.py), and they are there."""
from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.pains import NUMBERS, TESTS

TREE = Path(__file__).parents[1]
LONGEST = 400          # lines of a source file: aimed at are 60 to 250


def test_every_number_has_tests():
    assert tuple(TESTS) == NUMBERS and all(len(entry) > 1 for entry in TESTS.values())


@pytest.mark.parametrize("number", TESTS)
def test_every_complaint_has_its_tests(number):
    for test in TESTS[number][1:]:
        path, name, row = re.fullmatch(r"([\w/]+\.py)::(\w+)(?:\[(.*)\])?", test).groups()
        assert re.search(rf"^def {name}\(", (TREE / "tests" / path).read_text(encoding="utf-8"), re.MULTILINE), f"{path} has no {name}"
        if row is not None:
            rows = import_module("tests." + path.removesuffix(".py").replace("/", ".")).ROWS
            assert row in {one.what for one in rows}, f"{path} has no row {row!r}"


def sources() -> list[Path]:
    """Python files and shaders of the program."""
    found = [path for folder in ("hierarchos", "pipelines", "shaders") for path in sorted((TREE / folder).rglob("*"))]
    return [path for path in found if path.suffix in (".py", ".comp")]


def test_files_can_be_read_in_one_sitting():
    counted = {path.relative_to(TREE).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {name: lines for name, lines in counted.items() if lines > LONGEST} == {}
    assert sorted(counted.values())[len(counted) // 2] <= 150


def test_every_binary_has_its_source():
    """SPIR-V is made from a shader beside it; `make lint` makes it anew and compares."""
    compiled = {path.name.split(".")[0] for path in (TREE / "shaders/spirv").glob("*.spv")}
    assert compiled and not {name for name in compiled if not (TREE / f"shaders/{name}.comp").exists()}
