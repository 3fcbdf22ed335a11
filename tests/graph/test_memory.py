"""The memory plan: no two live buffers share a byte, nothing is wasted where nothing has to be."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hierarchos.graph.memory import ALIGNMENT, Interval, aligned, lay_out

one = st.builds(lambda size, start, steps: Interval(size, start, start + steps), *map(st.integers, (1, 0, 0), (5000, 30, 10)))
intervals = st.lists(one, max_size=40)


def together(a, b):
    return a.start <= b.end and b.start <= a.end


@settings(max_examples=200, deadline=None)
@given(intervals, st.sampled_from([None, 5120, 8192]))
def test_live_buffers_share_no_byte(buffers, limit):
    layout = lay_out(buffers, limit)
    for i, a in enumerate(buffers):
        block, offset = layout.places[i]
        assert offset % ALIGNMENT == 0 and offset + a.nbytes <= layout.blocks[block]
        for j, b in enumerate(buffers[:i]):
            other_block, other = layout.places[j]
            if together(a, b) and block == other_block:
                assert offset >= other + aligned(b.nbytes) or other >= offset + aligned(a.nbytes)
    assert limit is None or all(n <= limit for n in layout.blocks)


@settings(max_examples=100, deadline=None)
@given(intervals)
def test_the_plan_is_at_least_what_lives_at_once_and_at_most_everything(buffers):
    live = max((sum(aligned(b.nbytes) for b in buffers if b.start <= t <= b.end) for t in range(42)), default=0)
    assert live <= lay_out(buffers).nbytes <= sum(aligned(b.nbytes) for b in buffers)


def test_memory_is_used_again_when_a_life_ends():
    assert lay_out([Interval(1000, 0, 1), Interval(1000, 1, 2), Interval(1000, 2, 3)]).nbytes == 2048


def test_a_buffer_larger_than_a_block_is_refused():
    with pytest.raises(ValueError, match="4096 bytes does not fit"):
        lay_out([Interval(4000, 0, 1)], 2048)
