"""What the reference's models and their parameters are called."""

from __future__ import annotations

import validation.open_llama  # noqa: F401  (from here on Transformers has an architecture again that it dropped)


def named_parameters(model) -> list:
    """(name, parameter), a tied one under the name that packages have: some models hold the head before the embedding.

    Frozen ones are left out: they are tables that a family fixes (`Family.constants`)."""
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    return [(tied.get(name, name), parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
