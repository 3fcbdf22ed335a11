"""What an attention computes besides its operands: scale, masks, dropout, and which optional inputs are there."""
from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AttentionRule:
    """Options of one attention. A query i sees key j, with o = its offset (position of the first query minus that of
    the first key), when  (not causal or j <= i + o) and (window is None or |i + o - j| < window) and segments agree.

    score = cap(scale q k) - slope (i + o - j),  cap(s) = softcap tanh(s / softcap); without them score = scale q k.
    Optional inputs come after the required ones in the order of `optional`; a flag says whether each is there.
    Further score terms (sinks, a learned bias) belong here as flags and inputs of the same kind.
    """

    scale: float
    causal: bool = True
    window: int | None = None
    dropout: float = 0.0
    stream: int = 0
    segments: bool = False                          # i32 [B,T] and [B,S]: equal numbers see each other
    offset: bool = False                            # i32 [B]; without it the offset is S - T
    softcap: float | None = None
    slopes: bool = False                            # f32 [Hq]: ALiBi, constants without a gradient

    @property
    def optional(self) -> tuple[str, ...]:
        """Names of the optional inputs that are there, in input order."""
        names = ("segments_q", "segments_k") if self.segments else ()
        names += ("seed",) if self.dropout > 0 else ()
        names += ("query_offset",) if self.offset else ()
        return names + (("slopes",) if self.slopes else ())

    def index(self, required: int) -> dict[str, int]:
        """Input index of each optional input that is there, after `required` others."""
        return {name: required + i for i, name in enumerate(self.optional)}


@dataclass(frozen=True)
class AttentionShape:
    """Sizes: batch, queries, keys, query heads, key heads, channels of q and k, channels of v."""

    batch: int
    queries: int
    keys: int
    heads: int
    key_heads: int
    width: int
    value_width: int
    group: int = field(init=False, default=1)

    def __post_init__(self):
        object.__setattr__(self, "group", self.heads // max(self.key_heads, 1))

    @classmethod
    def of(cls, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> AttentionShape:
        return cls(q[0], q[1], k[1], q[2], k[2], q[3], v[3])
