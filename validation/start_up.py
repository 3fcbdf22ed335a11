"""CPU and wall time and imports of the commands that have to answer at once: python -m validation.start_up

CPU time (user and system, of the process and its children) does not depend on what else the machine does as wall time does."""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

HEAVY = ("numpy", "vulkan", "hydra", "omegaconf", "yaml", "tokenizers", "datasets", "huggingface_hub", "rich", "safetensors")
COMMANDS = {"--help": 0.3, "train --help": 0.3, "--complete train model=ll": 0.3, "--complete train train.": 0.3, "check": 2.0}
PROGRAM = "import sys; from pipelines.main import main; status = main(sys.argv[1:]); print('\\n' + ' '.join(sys.modules)); sys.exit(status)"


def measured(words: str) -> tuple[float, float, list[str]]:
    """CPU seconds and wall seconds of one call, and the heavy modules that it imported."""
    before, begun = os.times(), time.perf_counter()
    ended = subprocess.run([sys.executable, "-c", PROGRAM, *words.split()], capture_output=True, text=True, check=True)
    after, wall = os.times(), time.perf_counter() - begun
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    loaded = set(ended.stdout.rsplit("\n", 2)[-2].split())
    return seconds, wall, [name for name in HEAVY if name in loaded]


def main() -> None:
    """A line for each command: the least of three."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for words, allowed in COMMANDS.items():
        found = [measured(words) for _ in range(3)]
        cpu, wall = (min(one[which] for one in found) for which in (0, 1))
        print(f"hierarchos {words:<28} {cpu:.2f} s CPU, {wall:.2f} s wall (allowed {allowed:g})  "
              f"imports {', '.join(found[0][2]) or 'nothing heavy'}")


if __name__ == "__main__":
    main()
