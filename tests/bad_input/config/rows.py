"""What rows about command lines and configuration files have in common."""
from __future__ import annotations

from hierarchos.resources import resource
from pipelines.settings.folders import Folders, listed
from tests.bad_input.table import Wrong
from tests.pipelines.fake_stages import FAKE

MODELS = listed(Folders((resource("configs"),)).options("model"))
EXPERIMENTS = listed(Folders((resource("configs"),)).options("experiment"))
PIPELINES = ", ".join(sorted([*Folders((resource("configs"),)).options("pipeline"), "fake"]))
MINE = "configs/experiment/mine.yaml"


def line(what: str, words: list[str], message: str) -> Wrong:
    """A wrong command line."""
    return Wrong(what, tuple(words), message, {"SmolLM2/note": "", "configs/pipeline/fake.yaml": FAKE, "rows.jsonl": '{"text": "a"}\n'})


def file(what: str, text: str | bytes, message: str) -> Wrong:
    """A wrong experiment file."""
    return Wrong(what, ("train", "experiment=mine"), message, {MINE: text})
