"""Completion in the shells themselves; each is skipped where it is not installed."""
from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipelines.conftest import ROOT

BASH = """source <(hierarchos completion bash); compopt() { :; }
COMP_LINE='hierarchos train model=qwen3_t'; COMP_POINT=${#COMP_LINE}; COMP_WORDS=(hierarchos train model = qwen3_t); COMP_CWORD=4
_hierarchos; printf '%s\\n' "${COMPREPLY[@]}\""""
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
PATIENCE_SECONDS = 30.0


@pytest.fixture
def shell(tmp_path):
    """The environment of a shell that finds `hierarchos`, with a home of its own."""
    program = tmp_path / "bin/hierarchos"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipelines.main "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path / "config"), "TERM": "xterm"}


def needs(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")


def script(name: str, path: Path, environment: dict) -> None:
    """Puts the completion script where the help of `hierarchos completion` says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(subprocess.run(["hierarchos", "completion", name], env=environment, capture_output=True, check=True).stdout)


def test_bash_completes_the_value_behind_an_equals_sign(shell):
    needs("bash")
    ended = subprocess.run(["bash", "-c", BASH], env=shell, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["qwen3_tiny"]


@pytest.mark.parametrize("typed, found", [
    ("hierarchos tra", ["train"]), ("hierarchos train model=qwen3_t", ["model=qwen3_tiny"]),
    ("hierarchos train train.opt", ["train.optimizer."]), ("hierarchos train data.format=c", ["data.format=csv"]),
    ("hierarchos train data.path=row", ["data.path=rows.jsonl"]),
])
def test_fish_completes(shell, tmp_path, typed, found):
    needs("fish")
    script("fish", tmp_path / "config/fish/completions/hierarchos.fish", shell)
    (tmp_path / "rows.jsonl").write_text("")
    ended = subprocess.run(["fish", "-c", f"complete -C '{typed}'"], env=shell, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [line.partition("\t")[0] for line in ended.stdout.splitlines()] == found


def test_zsh_completes_at_the_first_tab(shell, tmp_path):
    """Keys as a person types them, in a terminal; what Tab made of them is what the shell then runs."""
    needs("zsh")
    script("zsh", tmp_path / "functions/_hierarchos", shell)
    (tmp_path / "rows.jsonl").write_text("")
    (tmp_path / ".zshrc").write_text(f"fpath=({tmp_path}/functions $fpath); autoload -Uz compinit; compinit -u -d {tmp_path}/dump\n"
                                     "PS1='READY> '; unsetopt zle_bracketed_paste\n"
                                     "hierarchos() { [[ $1 == --complete ]] && command hierarchos $@ || print -r -- GOT: $@ }\n")
    told = typed_into(["zsh", "-i"], shell, tmp_path, ["hierarchos tra\t model=qwen3_t\t train.opt\tname=sg\t data.path=row\t",
                                                       "hierarchos train --expl\t"])
    assert "GOT: train model=qwen3_tiny train.optimizer.name=sgd data.path=rows.jsonl" in told, told
    assert "GOT: train --explain" in told, told


def typed_into(command: list[str], environment: dict, folder: Path, lines: list[str]) -> str:
    """What a program in a terminal shows when `lines` are typed, and at last `exit`."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)
    shown = read_until(terminal, b"READY> ")
    os.write(terminal, "".join(line + "\r" for line in [*lines, "exit"]).encode())
    shown += read_until(terminal, None)
    os.close(terminal)
    os.waitpid(child, 0)
    return CONTROLS.sub("", shown.decode(errors="replace"))


def read_until(terminal: int, mark: bytes | None) -> bytes:
    """What is shown up to `mark`; None: to the end."""
    shown, until = b"", time.monotonic() + PATIENCE_SECONDS
    while (mark is None or mark not in shown) and time.monotonic() < until:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:                        # the program has ended
                break
    return shown
