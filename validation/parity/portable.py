"""Writes what Transformers says into a folder small enough to take along: another machine compares with it, without torch.

    python -m validation.parity.portable FOLDER [NAMES] [--jobs N]
    python -m validation.parity --cached FOLDER ...

The folder holds values, gates and PyTorch's errors. The truth itself would be too large: `truth.py` computes it again in float64. When the
folder is written that truth is compared with Transformers' in float64; every tensor must be within a tenth of its gate. When it is read,
fixed sums over each tensor must come out as they did then, so that a change of the models in between is noticed."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np

from hierarchos.errors import UserError
from hierarchos.models.registry import resolve
from validation.command import exit_with
from validation.parity.cases import Case, batch_arrays, cases_of, names
from validation.parity.expected import Errors, Expected, Truth
from validation.parity.gates import FLOOR, NOISY, SETTINGS, Noise
from validation.parity.truth import exact_results

SHARE = 0.1                 # of a gate, that our truth may differ from Transformers'
SAME = 1e-9                 # of a fixed sum over a tensor of the truth, on the other machine
CASES_FILE, VALUES_FILE = "cases.json.gz", "values.npz"


class Portable:
    """A folder that was written. Raises `UserError` where there is none."""

    def __init__(self, folder: str | Path):
        try:
            entries = json.loads(gzip.decompress((Path(folder) / CASES_FILE).read_bytes()))
            self.values = np.load(Path(folder) / VALUES_FILE)
        except OSError:
            raise UserError(f"{CASES_FILE} or {VALUES_FILE} is not there", where=str(folder),
                            hint=f"python -m validation.parity.portable {folder}  writes them, where torch is") from None
        self.entries = {(entry["model_type"], entry["name"]): entry for entry in entries}

    def expected(self, case: Case) -> Expected:
        """As `asked.ask` gave it, the truth computed again."""
        entry = self.entries.get((case.model_type, case.name))
        if entry is None or entry["seed"] != case.seed:
            raise UserError(f"{case.model_type} {case.name!r} with token ids {case.seed} is not in the folder: write it again")
        values = {name: restored(self.values[digest], shape) for name, digest, shape in entry["values"]}
        arrays = batch_arrays(case, entry["raw"]["vocab_size"])
        truth = exact_results(resolve(entry["raw"]), values, arrays)
        for name, found, kept in zip(("logits", "..."), sums(truth), entry["sums"], strict=False):
            if abs(found - kept) > SAME * max(1.0, abs(kept)):
                raise UserError(f"the truth of {case.model_type} {case.name!r} came out differently ({name}): write the folder again")
        listed = [name for name, _, _ in entry["values"]]
        errors = Errors(entry["logits"], entry["loss"], dict(zip(listed, entry["gradients"], strict=True)),
                        {setting: dict(zip(listed, kept, strict=True)) for setting, kept in zip(SETTINGS[:2], entry["after"], strict=True)})
        noise = {name: Noise(*numbers) for name, numbers in zip(listed, entry["noise"], strict=True)}
        return Expected(entry["raw"], values, arrays, truth, errors, noise)


def entry_of(case: Case, expected: Expected) -> dict:
    """What is kept of a case; raises ValueError where our truth is not Transformers'."""
    truth = exact_results(resolve(expected.raw), expected.values, expected.arrays)
    differences = list(too_far(truth, expected))
    if differences:
        raise ValueError(f"{case.model_type} {case.name}: the float64 of the twins is not that of Transformers: {differences[:4]}")
    listed = list(expected.values)
    return {
        "model_type": case.model_type, "name": case.name, "seed": case.seed, "raw": expected.raw, "sums": sums(truth),
        "values": [(name, digest_of(array), array.shape) for name, array in expected.values.items()],
        "logits": expected.errors.logits, "loss": expected.errors.loss,
        "gradients": [expected.errors.gradients.get(name, 0.0) for name in listed],
        "after": [[expected.errors.after[setting][name] for name in listed] for setting in SETTINGS[:2]],
        "noise": [(noise.rms, noise.firm, noise.scale) for noise in map(expected.noise.get, listed)]}


def too_far(ours: Truth, expected: Expected):
    """Quantities in which two truths differ by more than `SHARE` of the gate that Transformers' sets."""
    theirs, errors, real = expected.truth, expected.errors, expected.arrays["segments"] > 0
    pairs = [("logits", ours.logits[real], theirs.logits[real], errors.logits), ("loss", ours.loss, theirs.loss, errors.loss)]
    for name, gradient in theirs.gradients.items():
        if gradient is None or ours.gradients[name] is None:
            if (gradient is None) != (ours.gradients[name] is None):
                yield f"gradient of {name}", float("inf")
        else:
            pairs.append((f"gradient of {name}", ours.gradients[name], gradient, errors.gradients[name]))
    for setting in SETTINGS[:2]:
        pairs += [(f"{name} after {setting}", ours.after[setting][name], theirs.after[setting][name], errors.after[setting][name] * (
            setting != SETTINGS[0])) for name in theirs.after[setting]]
    for name, found, truth, p in pairs:
        error, gate = float(np.abs(found - truth).max(initial=0.0)), max(FLOOR * max(1.0, np.abs(truth).max(initial=0.0)), 2 * p)
        if not error <= SHARE * gate:
            yield name, error / gate
    for name, truth in theirs.after[NOISY].items():
        rms = float(np.sqrt(np.mean(np.square(ours.after[NOISY][name] - truth))))
        gate = expected.noise[name].gates()[0]
        if not rms <= SHARE * gate:
            yield f"{name} after {NOISY}", rms / gate


def sums(truth: Truth) -> list[float]:
    """Fixed sums over logits, gradients and parameters."""
    tensors = [truth.logits, *(g for g in truth.gradients.values() if g is not None),
               *(array for setting in SETTINGS for array in truth.after[setting].values())]
    return [float((array.ravel() * np.cos(np.arange(array.size))).sum()) for array in tensors]


def digest_of(array: np.ndarray) -> str:
    return sha256(array.tobytes()).hexdigest()[:20]


def shuffled(array: np.ndarray) -> np.ndarray:
    """The bytes of float32 values by significance, which compress better."""
    return np.ascontiguousarray(np.ascontiguousarray(array, "<f4").view(np.uint8).reshape(-1, 4).T)


def restored(array: np.ndarray, shape) -> np.ndarray:
    return np.ascontiguousarray(array.T).view("<f4").reshape(shape).copy()


def work(key: tuple[str, str]) -> tuple[dict | str, dict[str, np.ndarray]]:
    """Entry and values of a case; what is wrong in place of the entry."""
    from validation.parity.asked import ask

    case = next(case for case in cases_of(key[0]) if case.name == key[1])
    try:
        expected = ask(case)
        return entry_of(case, expected), {digest_of(array): shuffled(array) for array in expected.values.values()}
    except ValueError as error:
        return str(error), {}


def main() -> int:
    import multiprocessing

    parser = argparse.ArgumentParser(prog="python -m validation.parity.portable")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="model types; all by default")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that share the variants")
    options, entries, values, wrong = parser.parse_args(), [], {}, 0
    keys = [(name, case.name) for name in options.names or names() for case in cases_of(name)]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for key, (entry, arrays) in zip(keys, pool.imap(work, keys), strict=True):
            wrong += isinstance(entry, str)
            print(entry if isinstance(entry, str) else f"{key[0]}: {key[1]}", file=sys.stderr, flush=True)
            entries += [] if isinstance(entry, str) else [entry]
            values |= arrays
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / CASES_FILE).write_bytes(gzip.compress(json.dumps(entries).encode()))
    np.savez_compressed(options.folder / VALUES_FILE, **values)
    print(f"{len(entries)} variants, {sum(path.stat().st_size for path in options.folder.iterdir()):,} bytes; {wrong} left out")
    return 1 if wrong else 0


if __name__ == "__main__":
    exit_with(main)
