"""Comparing what a package holds with what a model needs: everything that is wrong is said at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


def match(found: Mapping[str, tuple[int, ...]], needed: Mapping[str, tuple[int, ...]], where: str, prefixes: Iterable[str] = (),
          buffers: Iterable[str] = (), alternatives: Mapping[str, str] | None = None) -> Match:
    """Finds each needed tensor among the found shapes.

    prefixes: base-model prefixes that a package may lack ("transformer."). buffers: patterns of tensors that are known and
    not parameters. alternatives: parameter -> tensor to take where the first is absent (tied weights).
    Raises `PackageMismatch` for missing tensors and wrong shapes; extra ones are only reported."""
    source = {name: _locate(name, found, prefixes, alternatives or {}) for name in needed}
    missing = [name for name, place in source.items() if place is None]
    wrong = [name for name, place in source.items() if place is not None and tuple(found[place]) != tuple(needed[name])]
    used = set(source.values()) | set((alternatives or {}).values())
    extra = [name for name in found if name not in used and not any(re.search(pattern, name) for pattern in buffers)]
    if missing or wrong:
        raise _mismatch(found, needed, source, missing, wrong, extra, where)
    return Match(source, tuple(extra))


def _locate(name: str, found: Mapping, prefixes: Iterable[str], alternatives: Mapping[str, str]) -> str | None:
    """The package's name for a parameter: its own, without a base-model prefix, or an alternative's."""
    candidates = [name, *(name.removeprefix(prefix) for prefix in prefixes), alternatives.get(name)]
    return next((candidate for candidate in candidates if candidate in found), None)


def _mismatch(found, needed, source, missing, wrong, extra, where: str) -> PackageMismatch:
    counts = [f"{len(missing)} tensors are missing"] if missing else []
    counts += [f"{len(wrong)} have another shape"] if wrong else []
    counts += [f"{len(extra)} are not used"] if extra else []
    lines = [f"missing  {name} {list(needed[name])}" + _near(name, extra) for name in missing[:SHOWN]] + _more(missing)
    lines += [f"shape    {name} is {list(found[source[name]])}, config.json asks for {list(needed[name])}" for name in wrong[:SHOWN]]
    lines += _more(wrong) + [f"unused   {name} {list(found[name])}" for name in extra[:SHOWN]] + _more(extra)
    return PackageMismatch(f"the package does not fit its config.json: {', '.join(counts)}", missing, wrong, extra, where=where,
                           hint=lines, outcome="nothing was loaded")


def _near(name: str, extra: list[str]) -> str:
    near = nearest(name, extra, cutoff=0.75)
    return f"   (the package has {near})" if near else ""


def _more(names: list[str]) -> list[str]:
    return [f"         ... and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
