"""What docs/coherent-v9.md says can be typed is understood: every command line, checked without running it, or run where it only looks."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest

from tests.coherent_v9.small import talker

PAGE = (Path(__file__).parents[2] / "docs/coherent-v9.md").read_text(encoding="utf-8")
COMMANDS = [re.split(r"\s{2,}#", line.strip())[0].strip() for line in PAGE.splitlines() if line.startswith("    hierarchos ")]
STAGES = ("train", "finetune", "generate", "evaluate")
NO_ROOM = 4


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package and rows, where commands are typed."""
    talker(tmp_path, name="FOLDER")
    row = '{"instruction": "Say to be", "output": "or not to be"}\n'
    (tmp_path / "rows.jsonl").write_text(row * 40, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_a_command_for_each_thing():
    assert {shlex.split(command)[1] for command in COMMANDS} == {*STAGES, "chat", "plan", "bench"}


@pytest.mark.parametrize("command", [command for command in COMMANDS if "bench" not in command])
def test_commands_are_understood(command, folder, monkeypatch, capsys):
    from pipelines.main import main

    words = shlex.split(command)[1:]
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    words += ["--dry-run"] if words[0] in STAGES else []
    words += ["data=jsonl", "data.path=rows.jsonl"] if words[0] == "plan" else []       # the plays are long
    assert main(words) in ((0, NO_ROOM) if words[0] == "plan" else (0,)), capsys.readouterr().err
