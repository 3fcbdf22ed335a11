from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pipelines.fake_stages import FAKE

ROOT = Path(__file__).parents[2]


@dataclass
class Ended:
    status: int
    out: str
    err: str


class Place:
    """An empty folder in which `hierarchos` is called; `fake` is a pipeline of stages that take no time."""

    def __init__(self, path: Path, capsys):
        self.path, self.capsys = path, capsys
        self.write("configs/pipeline/fake.yaml", FAKE)

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def call(self, *words: str) -> Ended:
        """In this process, as the entry point does."""
        from pipelines.main import main

        self.capsys.readouterr()
        status = main(list(words))
        captured = self.capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    def start(self, *words: str) -> subprocess.Popen:
        """In a process of its own."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.Popen([sys.executable, "-m", "pipelines.main", *words], cwd=self.path, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def files(self) -> list[str]:
        """Everything that is not configuration."""
        found = (path.relative_to(self.path).as_posix() for path in self.path.rglob("*"))
        return sorted(name for name in found if not name.startswith("configs"))

    def runs(self, pipeline: str = "fake") -> list[Path]:
        return sorted(path.parent for path in self.path.glob(f"outputs/{pipeline}/*/run.json"))


@pytest.fixture
def place(tmp_path, monkeypatch, capsys) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(tmp_path, capsys)
