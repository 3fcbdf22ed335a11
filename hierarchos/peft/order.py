"""The order of an adapter's matrices in memory."""
from __future__ import annotations

from hierarchos.nn.weights import ParameterSpec


def neighbours_together(specs: tuple[ParameterSpec, ...]) -> tuple[ParameterSpec, ...]:
    """The base first, in its order. Then the A matrices of modules below one parent side by side, then their B matrices: q, k and v
    read their x in one product where their weights are neighbours."""
    def group(spec: ParameterSpec) -> str:
        for kind in (".lora_A.weight", ".lora_B.weight"):
            if spec.name.endswith(kind):
                return spec.name.removesuffix(kind).rpartition(".")[0] + kind
        return spec.name

    places: dict[str, list[ParameterSpec]] = {}
    for spec in sorted(specs, key=lambda spec: ":" in spec.name):
        places.setdefault(group(spec), []).append(spec)
    return tuple(spec for members in places.values() for spec in members)
