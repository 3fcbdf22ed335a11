"""The wheel: what is in it, and that it works outside a checkout. The sources: what they must not contain."""
from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hierarchos import __version__

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip")
ORACLE = {"torch", "transformers", "peft"}
MACHINE_PATH = re.compile(rb"(?<![\w.~$})-])/(?:home|root|opt|work|Users)/\w")


def run(*words: object, cwd: Path) -> subprocess.CompletedProcess:
    """Runs a program without this checkout on its path; what it printed is in `stdout`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([str(word) for word in words], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    built = run(*PIP, "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, ROOT, cwd=folder)
    assert built.returncode == 0, built.stdout
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` folder of a new environment that has the wheel, and sees this one's packages but not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    places = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    Path(places["purelib"], "dependencies.pth").write_text(sysconfig.get_path("purelib"))    # the .pth files in there are not read
    python = Path(places["scripts"], "python")
    done = run(*PIP, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    assert done.returncode == 0, done.stdout
    return python.parent


@pytest.fixture
def hierarchos(installed, tmp_path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs the installed command in an empty folder."""
    return lambda *words: run(installed / "hierarchos", *words, cwd=tmp_path)


def shipped(folder: str, suffix: str) -> set[str]:
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob(f"*{suffix}") if "local" not in path.parts}


def test_the_wheel_carries_configurations_shaders_and_texts(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    data = {f"hierarchos/_data/{name}" for name in shipped("configs", ".yaml") | shipped("shaders/spirv", ".spv")}
    assert data <= inside
    assert shipped("hierarchos/data/corpus", ".txt") <= inside
    assert "hierarchos/data/corpus/PROVENANCE.md" in inside


def test_the_wheel_carries_nothing_else(wheel):
    inside = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in inside} == {"hierarchos", "pipelines", f"hierarchos-{__version__}.dist-info"}
    assert not [name for name in inside if "/local/" in name or "__pycache__" in name or name.endswith(".comp")]


def test_the_installed_program_is_the_one_in_the_wheel(installed, tmp_path):
    code = ("import hierarchos, pipelines; from hierarchos.resources import resource\n"
            "print(hierarchos.__file__, pipelines.__file__, resource('configs'))")
    found = run(installed / "python", "-c", code, cwd=tmp_path).stdout.split()
    assert len(found) == 3 and all(Path(path).is_relative_to(installed.parent) for path in found), found


def test_the_installed_program_tells_its_version(hierarchos):
    done = hierarchos("--version")
    assert (done.returncode, done.stdout) == (0, f"hierarchos {__version__}\n")


def test_the_package_runs_as_the_program_does(hierarchos, installed, tmp_path):
    def module(*words: str) -> subprocess.CompletedProcess:
        return run(installed / "python", "-m", "hierarchos", *words, cwd=tmp_path)

    for words in (["--version"], ["trian"], ["train", "--dry-run"]):
        done, same = module(*words), hierarchos(*words)
        assert (done.returncode, done.stdout) == (same.returncode, same.stdout), words
    assert module("trian").returncode == 2


def test_the_installed_program_finds_its_configurations(hierarchos):
    help_text, dry = hierarchos("train", "--help"), hierarchos("train", "--dry-run")
    assert help_text.returncode == 0 and "train" in help_text.stdout, help_text.stdout
    assert dry.returncode == 0 and "learning_rate" in dry.stdout, dry.stdout


def test_the_installed_program_reaches_the_device_with_its_shaders(hierarchos):
    devices, doctor = hierarchos("devices"), hierarchos("doctor")
    assert devices.returncode == 0 and "Vulkan" in devices.stdout, devices.stdout
    assert doctor.returncode == 0, doctor.stdout


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_place_on_somebodys_machine():
    found = [f"{path.relative_to(ROOT)}:{number}" for path in tracked_files() if path.relative_to(ROOT).parts[0] != "tests"
             for number, line in enumerate(path.read_bytes().splitlines(), 1) if MACHINE_PATH.search(line)]
    assert found == []


def imports(path: Path) -> set[str]:
    """Top-level names of what a file imports, also inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    parts = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in plain | parts}


def test_the_program_imports_no_other_framework():
    sources = [path for folder in ("hierarchos", "pipelines") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path.relative_to(ROOT)) for path in sources if imports(path) & ORACLE] == []


def test_setup_refuses_a_word_that_it_does_not_know():
    done = run("sh", ROOT / "scripts" / "setup.sh", "tests", cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "setup: 'tests' is none of: test, oracle, system (or nothing)\n")


def test_setup_for_tests_installs_extras_that_are_there():
    """Where pip has them: the tests of launchers and trackers are then run, not skipped."""
    text = (ROOT / "scripts" / "setup.sh").read_text(encoding="utf-8")
    optional = set(re.search(r"^optional=(\S+)", text, re.MULTILINE)[1].split(","))
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"ray", "mlflow", "trackio"} == optional <= set(extras)
