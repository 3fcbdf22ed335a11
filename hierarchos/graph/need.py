"""What a whole run needs of a device's memory, item by item, known before anything is allocated."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hierarchos.graph.layout import StoreLayout
from hierarchos.graph.plan import Plan
from hierarchos.vulkan.staging import PIECE_BYTES


@dataclass(frozen=True)
class Need:
    """Bytes by item, in the order in which people are told."""

    items: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.items.values())


def need_of(layout: StoreLayout, names: Mapping[str, str], plans: Sequence[Plan], info) -> Need:
    """The need of a store and of programs that live together over it.

    names: what people call each arena of the store; arenas of one name are added. Programs share one set of activations, each
    block as large as the largest of them needs it; inputs, outputs and constants each has of its own. info: a DeviceInfo."""
    items = states_of(layout, names)
    scratch = shared_bytes(plans)
    workspace = max(plans, key=lambda plan: plan.arena.nbytes).workspace
    items["activations"], items["workspace"] = scratch - workspace, workspace
    items["inputs and outputs"] = sum(plan.inputs + plan.outputs for plan in plans)
    items["constants"] = sum(plan.constants for plan in plans)
    if info.kind not in ("software", "integrated"):
        items["transfers"] = PIECE_BYTES
    return Need(items)


def states_of(layout: StoreLayout, names: Mapping[str, str]) -> dict[str, int]:
    """Bytes of a store by what people call its arenas; arenas of one name are added."""
    items: dict[str, int] = {}
    for arena, nbytes in layout.arenas.items():
        items[names[arena]] = items.get(names[arena], 0) + max(nbytes, 256)
    return items


def shared_bytes(plans: Sequence[Plan]) -> int:
    """Bytes of activations and workspace that the programs share, see `scratch.py`."""
    blocks = max(len(plan.arena.blocks) for plan in plans)
    return sum(max(plan.arena.blocks[i] for plan in plans if i < len(plan.arena.blocks)) for i in range(blocks))
