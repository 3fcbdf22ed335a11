from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.bad_input.table import FAILED_RUN, NOTHING, Wrong
from tests.pipelines.conftest import Ended, Place, place

__all__ = ["place"]
CONFIG = {"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 64, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
          "resid_pdrop": 0.0}
TEXTS = [f"{n} and {n} make {n + n}, which is twice {n}." for n in range(40)]


@pytest.fixture(scope="session")
def package(tmp_path_factory) -> Path:
    """A small Hugging Face package: 300 tokens, 64 positions."""
    from hierarchos.data.tokenizer_training import train_tokenizer
    from hierarchos.models.load import save_model
    from hierarchos.models.registry import resolve

    tokenizer = train_tokenizer(TEXTS, 300)
    model, folder = resolve({**CONFIG, "vocab_size": tokenizer.size, "eos_token_id": tokenizer.eos_id}), tmp_path_factory.mktemp("package")
    tokenizer.save(folder / "tokenizer")
    files = {path.name: path.read_text(encoding="utf-8") for path in (folder / "tokenizer").iterdir()}
    return save_model(folder / "model", model, model.initial_values(0), files=files)


@pytest.fixture
def answer(place: Place, package: Path):
    """answer(row): types the words of a row among its files, and checks status and what is left on disk."""
    def ask(row: Wrong) -> Ended:
        if any("pkg" in word for word in row.words):
            shutil.copytree(package, place.path / "pkg")
        for name, content in row.files.items():
            (place.path / name).parent.mkdir(parents=True, exist_ok=True)
            (place.path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        if row.before is not None:
            row.before(place.path)
        before = place.files()
        ended = place.call(*row.words)
        made = [name for name in place.files() if name not in before]
        if row.left == NOTHING:
            assert made == []
        if row.left == FAILED_RUN:
            [manifest] = [place.path / name for name in made if name.endswith("run.json")]
            assert json.loads(manifest.read_text(encoding="utf-8"))["status"] == "failed"
        return ended

    return ask


@pytest.fixture
def check(answer):
    """check(row): the exact message and status."""
    def exactly(row: Wrong) -> None:
        ended = answer(row)
        assert ended.err.rstrip("\n") == row.message
        assert ended.status == row.status

    return exactly
