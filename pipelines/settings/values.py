"""Whether a value fits its setting, and what to say when it does not."""
from __future__ import annotations

import json
import math
from collections.abc import Iterable

from hierarchos.errors import UserError, nearest
from pipelines.settings.schema import Setting

LARGEST = 2**31 - 1          # of whole numbers without a limit of their own: what kernels and counters take
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a mapping"}


def check(setting: Setting, value: object, where: str, typed: str | None = None) -> list[UserError]:
    """The mistakes in `value`; `typed` is how it was written, where that differs. References `${...}` and `???` pass."""
    if isinstance(value, str) and ("${" in value or value == "???"):
        return []
    if value is None:
        return [] if setting.optional else [UserError(f"{setting.key} cannot be null", where=where, hint=f"it takes {_takes(setting)}")]
    if setting.limits.accepts:
        return _check_accepted(setting, value, where, typed)
    if setting.kind is list and isinstance(value, (list, tuple)):
        return [error for item in value for error in _check_item(setting, item, where)]
    if not _is_kind(value, setting.kind):
        return [_wrong_type(setting, setting.kind, value, where, typed)]
    return _check_limits(setting, value, where)


def convert(setting: Setting, value: object) -> object:
    """A checked value in the setting's own type (whole numbers are fine where a number is asked)."""
    return float(value) if setting.kind is float and isinstance(value, int) else value


def show(value: object) -> str:
    """A value as it would be typed: texts in quotes, null, true, numbers."""
    return json.dumps(value, ensure_ascii=False, default=str)


def any_of(names: Iterable[str]) -> str:
    """"a", "a or b", "a, b or c"."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last


def _is_kind(value: object, kind: type | None) -> bool:
    if kind is None:
        return True
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _check_item(setting: Setting, item: object, where: str) -> list[UserError]:
    wrong = setting.item is not None and not _is_kind(item, setting.item)
    return [_wrong_type(setting, setting.item, item, where, None)] if wrong else []


def _check_accepted(setting: Setting, value: object, where: str, typed: str | None) -> list[UserError]:
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, str):
            return [_wrong_type(setting, str, item, where, typed)]
        if not item:
            return [_empty(setting, where)]
    return [] if value else [_empty(setting, where)]


def _check_limits(setting: Setting, value: object, where: str) -> list[UserError]:
    limits = setting.limits
    if limits.choices and value not in limits.choices:
        return [_not_a_choice(setting, str(value), where)]
    if setting.kind in (int, float):
        if not math.isfinite(value):
            return [UserError(f"{setting.key} must be a finite number, not {value}", where=where)]
        if setting.kind is int and limits.at_most is None and value > LARGEST:
            return [UserError(f"{setting.key} must be at most {LARGEST}, not {value}", where=where)]
        if not limits.holds(value):
            return [UserError(f"{setting.key} must be {limits.range_text()}, not {value}", where=where, hint=setting.help)]
    if value == "" and not limits.may_be_empty:
        return [_empty(setting, where)]
    return []


def _empty(setting: Setting, where: str) -> UserError:
    command = f"{setting.key}=null" if setting.optional else f"{setting.key}={setting.default}"
    return UserError(f"{setting.key} is empty", where=where, hint=setting.help, command=command)


def _not_a_choice(setting: Setting, value: str, where: str) -> UserError:
    choices = setting.limits.choices
    if value in setting.limits.planned:
        return UserError(f"{setting.key}={value} is not available yet", where=where, hint=f"this version computes in {any_of(choices)}")
    return UserError(f"{setting.key} takes {any_of(choices)}, not {show(value)}", where=where, nearest=nearest(value, choices))


def _wrong_type(setting: Setting, kind: type | None, value: object, where: str, typed: str | None) -> UserError:
    """`typed` is the YAML text of a scalar: `no` became false, `010` became 8; such a text only lacks its quotes."""
    written = typed if typed is not None else show(value)
    if kind is str and not isinstance(value, (list, dict)):
        name = setting.key.rpartition(".")[2]
        reading = f", and YAML reads {written} as {show(value)}" if written != show(value) else f", not {written}"
        return UserError(f"{setting.key} takes text{reading}", where=where, hint=f'quote it:  {name}: "{written}"')
    what = "items that are " + WORDS[kind] if setting.kind is list and kind is not list else _takes(setting)
    whole = kind is int and isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST      # 1e3
    near = f"{setting.key}={int(value)}" if whole else None
    return UserError(f"{setting.key} takes {what}, not {show(value)}", where=where, nearest=near)


def _takes(setting: Setting) -> str:
    if setting.limits.choices:
        return any_of(setting.limits.choices)
    if setting.limits.accepts:
        return "text or a list of texts"
    reach = setting.limits.range_text()
    return WORDS[setting.kind] + (f" ({reach})" if reach else "") + (" or null" if setting.optional else "")
