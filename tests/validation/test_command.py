"""Commands of validation/ tell wrong input in words."""

from pathlib import Path

import pytest

from hierarchos.errors import UserError
from validation.command import exit_with

FOLDER = Path(__file__).parents[2] / "validation"
INNER = {"bench_lora.py", "bench_torch.py", "start_up.py"}     # started by other commands, or taking no input


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
    commands = {path for path in FOLDER.rglob("*.py") if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")}
    assert len(commands) > 30
    assert {path.name for path in commands if "exit_with(main)" not in path.read_text(encoding="utf-8")} == INNER
