"""Real weights: hidden states of an encoder and logits of a decoder against Transformers, on a Vulkan device.

    python -m validation.real_models FOLDER [FOLDER ...] [--device D]

FOLDER is a package such as all-MiniLM-L6-v2 (last hidden states) or SmolLM2-135M (logits). Where it has an expected.json (values that
Transformers computed once in float32), ours may be 2e-6 (hidden states) or 2e-5 (logits) away from them. Then some texts alone and in one
padded batch, every value of every token: there float32 PyTorch is itself further from float64 than that, so both distances are shown, and
ours may be twice PyTorch's, the gate of the parity checks.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hierarchos.graph.op import tracing
from hierarchos.graph.program import compile_program
from hierarchos.graph.store import StateStore
from hierarchos.graph.tensor import Graph, Spec
from hierarchos.models.bert import body
from hierarchos.models.load import Loaded, load_model
from hierarchos.nn.batch import input_batch, logits
from hierarchos.vulkan import open_device
from validation.command import exit_with

TEXTS = ("The capital of France is", "A quick brown fox.",
         "In 1969 two people walked on the Moon while a third stayed in orbit; six hundred million others watched them on television, and "
         "most of those who did can still tell you where they were, what the weather was like, and who was sitting beside them.")
LIMITS = {"masked": 2e-6, "causal": 2e-5}       # of hidden states, of logits


HEADING = f"{'package':24}{'text':>14}{'largest':>10}{'ours-theirs':>13}{'ours-float64':>14}{'theirs-float64':>16}{'gate':>10}"


@dataclass(frozen=True)
class Line:
    """Largest value and distances of one text; `judged` must not pass `gate`."""

    text: str
    largest: float
    ours_theirs: float
    ours_double: float
    theirs_double: float
    judged: float
    gate: float

    @property
    def passed(self) -> bool:
        return self.judged <= self.gate

    def __str__(self) -> str:
        numbers = f"{self.ours_theirs:13.2e}{self.ours_double:14.2e}{self.theirs_double:16.2e}{self.gate:10.1e}"
        return f"{self.text:>14}{self.largest:10.2f}{numbers}" + ("" if self.passed else "  TOO FAR")


def main() -> int:
    """One line for each text and folder; 1 where a gate is passed."""
    parser = argparse.ArgumentParser(prog="python -m validation.real_models", description="Real weights against Transformers.")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = open_device(options.device)
    print(f"{device.info.name}\n{HEADING}")
    failed = False
    for folder in map(Path, options.folders):
        loaded = load_model(folder)
        store = uploaded(loaded, device)
        for line in (*expected(folder, loaded, store, device), *compare(folder, loaded, store, device)):
            failed |= not line.passed
            print(f"{folder.name:24}{line}")
    device.close()
    return int(failed)


def expected(folder: Path, loaded: Loaded, store: StateStore, device):
    """The values that stand in expected.json: five logits of the last token, or eight hidden channels of the first."""
    if not (folder / "expected.json").is_file():
        return
    told = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    ids = np.array([told["input_ids"]])
    ours = run(loaded, store, device, ids, np.ones(ids.shape, bool))[0]
    if loaded.model.task == "masked":
        theirs, ours = np.array(told["first_hidden_8"]), ours[0, :8]
    else:
        theirs, places = np.array(told["last_logits_top5"]).T
        ours = ours[-1, places.astype(int)]
    distance = abs(ours - theirs).max()
    yield Line("expected.json", abs(theirs).max(), distance, np.nan, np.nan, distance, LIMITS[loaded.model.task])


def compare(folder: Path, loaded: Loaded, store: StateStore, device):
    """Each text alone, and the batch of all."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    auto = transformers.AutoModel if loaded.model.task == "masked" else transformers.AutoModelForCausalLM
    references = [auto.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval() for dtype in (torch.float32, torch.float64)]
    for name, texts in (*((f"text {number}", [text]) for number, text in enumerate(TEXTS, 1)), ("padded batch", list(TEXTS))):
        encoded = tokenizer(texts, return_tensors="pt", padding=True)
        real = encoded["attention_mask"].numpy() > 0
        with torch.no_grad():
            single, double = (output(model(**encoded))[real] for model in references)
        ours = run(loaded, store, device, encoded["input_ids"].numpy(), real)[real]
        largest, error, theirs = abs(double).max(), abs(ours - double).max(), abs(single - double).max()
        yield Line(name, largest, abs(ours - single).max(), error, theirs, error, max(2e-7 * max(1.0, largest), 2 * theirs))


def output(result) -> np.ndarray:
    """What is compared, in float64."""
    return (result.logits if "logits" in result else result.last_hidden_state).double().numpy()


def uploaded(loaded: Loaded, device) -> StateStore:
    """The package's parameters on the device."""
    store = StateStore(device)
    store.allocate("parameters", {spec.name: Spec(spec.shape) for spec in loaded.model.parameters})
    for name, value in loaded.values().items():
        store.write(name, value)
    return store


def run(loaded: Loaded, store: StateStore, device, ids: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Logits [rows, length, V], or an encoder's last hidden states [rows, length, D]."""
    model = loaded.model
    with tracing(Graph()) as graph:
        w, batch = model.weights(), input_batch(*ids.shape)
        if model.task == "masked":
            graph.outputs["result"] = body(model.config, w.at(model.family.base), batch)
        else:
            graph.outputs["result"] = logits(model.forward(w, batch))
    program = compile_program(graph, device, store)
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    feeds = {"ids": ids.astype(np.int32), "positions": positions.astype(np.int32), "segments": real.astype(np.int32)}
    result = program.run(feeds)["result"].astype(np.float64)
    program.close()
    return result


if __name__ == "__main__":
    exit_with(main)
