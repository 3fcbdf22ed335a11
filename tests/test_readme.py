"""What the README says can be typed: every command line in it is checked as if it were run, without running it."""
import re
import shlex
from pathlib import Path

import pytest

from tests.bad_input.conftest import package

__all__ = ["package"]
ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in README.splitlines() if re.match(r"    hierarchos (train|finetune|generate|evaluate) ", line)]
LOOKS = re.search(r"hierarchos (devices \|.*?)  ", README)[1].split(" | ")


def words_of(command: str, package: Path) -> list[str]:
    """The words after `hierarchos`, without the explanation that stands after two spaces."""
    typed = re.split(r"\s{2,}| any package ", command)[0]
    return [word.replace("FOLDER", str(package)) for word in shlex.split(typed)[1:]]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_are_understood(command, package, tmp_path, monkeypatch, capsys):
    from pipelines.main import main

    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"text": "to be"}\n' * 40, encoding="utf-8")
    words = words_of(command, package)
    if "run.resume=latest" in words:
        assert main(words) == 2 and "there is no unfinished run" in capsys.readouterr().err          # there is no run here
    else:
        words += ["train.sequence_length=32"] if words[0] == "finetune" else []     # what this package can take
        assert main([*words, "--dry-run"]) == 0, capsys.readouterr().err


def test_commands_that_look_are_commands():
    from pipelines.main import main

    assert LOOKS == ["devices", "doctor", "architectures", "bench"]
    assert all(main([name, "--help"]) == 0 for name in LOOKS)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in re.findall(r"^    make (\w+)", README, re.M))
