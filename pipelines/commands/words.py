"""The few words that commands take."""
from __future__ import annotations

from hierarchos.errors import UserError, nearest


def take(words: list[str], *flags: str, names: bool = False) -> tuple[set[str], list[str]]:
    """Flags and names among the words; UserError for anything else."""
    unknown = [word for word in words if word not in flags and (word.startswith("-") or not names)]
    if unknown:
        hint = f"it takes {', '.join(flags)}" if flags else "it takes no words"
        raise UserError(f"{unknown[0]} is not understood", where="command line", nearest=nearest(unknown[0], flags), hint=hint)
    return {word for word in words if word in flags}, [word for word in words if word not in flags]
