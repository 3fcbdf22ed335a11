"""Commands of validation/ tell wrong input in words."""

import runpy
import sys
from pathlib import Path

import pytest

from hierarchos.errors import UserError
from validation.command import exit_with

FOLDER = Path(__file__).parents[2] / "validation"
INNER = {"bench_lora.py", "bench_torch.py", "start_up.py"}     # started by other commands, or taking no input
COMMANDS = sorted(path for path in FOLDER.rglob("*.py") if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8"))


def test_wrong_input_is_a_message_and_status_2(capsys):
    def main():
        raise UserError("no such folder", where="argument 1")

    with pytest.raises(SystemExit) as ended:
        exit_with(main)
    assert ended.value.code == 2 and "no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("status", [None, 0, 1])
def test_the_status_is_that_of_the_command(status):
    with pytest.raises(SystemExit) as ended:
        exit_with(lambda: status)
    assert ended.value.code == status


def test_every_command_ends_that_way():
    assert len(COMMANDS) > 30
    assert {path.name for path in COMMANDS if "exit_with(main)" not in path.read_text(encoding="utf-8")} == INNER


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.relative_to(FOLDER).with_suffix("").as_posix())
def test_no_command_starts_with_an_unknown_option(path, monkeypatch, capsys):
    source = path.read_text(encoding="utf-8")
    assert "parse_args(" in source, "it would start, whatever was asked"
    monkeypatch.setattr(sys, "argv", [path.name, "--no-such-option"])
    try:
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(path), run_name="__main__")
    except ImportError as error:
        pytest.skip(f"needs {error.name}, which is not installed")
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("usage: ")
