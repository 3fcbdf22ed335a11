"""Comparing what a package holds with what a model needs: everything that is wrong is said at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hierarchos.errors import UserError, nearest

SHOWN = 8      # names listed of each kind


class PackageMismatch(UserError):
    """Tensors are missing or have another shape; `missing`, `wrong`, `extra` hold all of them."""

    def __init__(self, what: str, missing=(), wrong=(), extra=(), **fields):
        super().__init__(what, **fields)
        self.missing, self.wrong, self.extra = tuple(missing), tuple(wrong), tuple(extra)


@dataclass(frozen=True)
class Match:
    """Parameter -> tensor of the package that holds it, and the tensors that nothing uses."""

    source: dict[str, str]
    extra: tuple[str, ...]


def match(found: Mapping[str, tuple[int, ...]], needed: Mapping[str, tuple[int, ...]], where: str,
          spellings: Callable[[str], Iterable[str]] = lambda name: (name,), buffers: Iterable[str] = (),
          alternatives: Mapping[str, str] | None = None) -> Match:
    """Finds each needed tensor among the found shapes.

    spellings(name): what a package may call it, the best first. buffers: patterns of tensors that are known and are no
    parameters. alternatives: parameter -> tensor to take where the first is absent (tied weights).
    Raises `PackageMismatch` for missing tensors and wrong shapes; extra ones are only reported."""
    others = {name: tuple(spellings(other)) for name, other in (alternatives or {}).items()}
    source = {name: next((place for place in (*spellings(name), *others.get(name, ())) if place in found), None) for name in needed}
    missing = [name for name, place in source.items() if place is None]
    wrong = [name for name, place in source.items() if place is not None and tuple(found[place]) != tuple(needed[name])]
    used = set(source.values()).union(*others.values())
    extra = [name for name in found if name not in used and not any(re.search(pattern, name) for pattern in buffers)]
    if missing or wrong:
        raise _mismatch(found, needed, source, missing, wrong, extra, where)
    return Match(source, tuple(extra))


def _mismatch(found, needed, source, missing, wrong, extra, where: str) -> PackageMismatch:
    counts = [_counted(len(missing), "is missing", "are missing")] if missing else []
    counts += [_counted(len(wrong), "has another shape", "have another shape")] if wrong else []
    counts += [_counted(len(extra), "is not used", "are not used")] if extra else []
    lines = [f"missing  {name} {list(needed[name])}" + _near(name, extra) for name in missing[:SHOWN]] + _more(missing)
    lines += [f"shape    {name} is {list(found[source[name]])}, config.json asks for {list(needed[name])}" for name in wrong[:SHOWN]]
    lines += _more(wrong) + [f"unused   {name} {list(found[name])}" for name in extra[:SHOWN]] + _more(extra)
    return PackageMismatch(f"the package does not fit its config.json: {', '.join(counts)}", missing, wrong, extra, where=where,
                           hint=lines, outcome="nothing was loaded")


def _counted(count: int, one: str, many: str) -> str:
    return f"1 tensor {one}" if count == 1 else f"{count} tensors {many}"


def _near(name: str, extra: list[str]) -> str:
    near = nearest(name, extra, cutoff=0.75)
    return f"   (the package has {near})" if near else ""


def _more(names: list[str]) -> list[str]:
    return [f"         ... and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
