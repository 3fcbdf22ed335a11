"""The identity of a learned function: a digest over every key that changes it."""
from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256

from hierarchos.errors import UserError
from hierarchos.models.coherent_v9.config import CONTRACT_KEYS, Config

SCHEMA_VERSION = 3


def contract_of(cfg: Config) -> dict:
    """Every hashed key with its resolved value, and the version of this list."""
    return {"architecture_contract_schema_version": SCHEMA_VERSION} | {name: cfg.values.get(name) for name in CONTRACT_KEYS}


def digest_of(contract: Mapping) -> str:
    """SHA-256 of the JSON with sorted keys and no spaces. Numbers are written as Python writes them, which is part of the identity."""
    text = json.dumps(dict(contract), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode("utf-8")).hexdigest()


def check_contract(expected: Mapping, found: Mapping | None, digest: str | None, where: str, outcome: str = "nothing was loaded") -> None:
    """Refuses a file that was written for another learned function; names the first key that differs.

    A stored digest that is not that of the stored contract is refused too: the file was changed by hand."""
    if found is not None and digest is not None and digest_of(found) != digest:
        raise UserError(f"architecture_contract_sha256 is {digest[:12]}..., but its contract gives {digest_of(found)[:12]}...", where=where,
                        hint="the contract or its digest was changed after it was written", outcome=outcome)
    if found is not None:
        differing = [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
        if differing:
            name = differing[0]
            more = f" (and {len(differing) - 1} other keys)" if len(differing) > 1 else ""
            raise UserError(f"another model: {name} is {found.get(name)!r} there and {expected.get(name)!r} here{more}", where=where,
                            outcome=outcome)
    elif digest is not None and digest != digest_of(expected):
        raise UserError(f"another model: its contract digest is {digest[:12]}..., here it is {digest_of(expected)[:12]}...", where=where,
                        outcome=outcome)
