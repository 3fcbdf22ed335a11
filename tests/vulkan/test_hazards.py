"""Barriers stand exactly where a command conflicts with one since the last barrier."""
from hypothesis import given
from hypothesis import strategies as st

from hierarchos.vulkan.commands import Copy, Dispatch, Fill, Shader, Span
from hierarchos.vulkan.hazards import Intervals, barriers_before
from tests.vulkan.test_ordering import conflict

NOTHING = Shader("nothing", b"")
plain = st.builds(Span, st.integers(0, 40), st.integers(0, 12))
columns = st.builds(lambda at, rows, first, width: Span(at * 8 + first, (rows - 1) * 8 + width, 8, width),
                    st.integers(0, 3), st.integers(2, 3), st.integers(0, 5), st.integers(1, 3))
spans = plain | columns
span_lists = st.lists(spans, max_size=3).map(tuple)
dispatches = st.builds(lambda reads, writes: Dispatch(NOTHING, (), b"", (1, 1, 1), reads, writes, "d"), span_lists, span_lists)
fills = st.builds(Fill, plain)
copies = st.builds(Copy, plain, plain)


def covered(some) -> set[int]:
    return {byte for span in some for byte in range(span.address, span.address + span.nbytes)}


def oracle(commands) -> list[bool]:
    """The same rule, span by span."""
    barriers, since = [], []
    for command in commands:
        hazard = any(conflict(earlier, command) for earlier in since)
        since = [command] if hazard else [*since, command]
        barriers.append(hazard)
    return barriers


@given(st.lists(dispatches | fills | copies, max_size=20))
def test_barriers_equal_the_oracle(commands):
    assert barriers_before(commands) == oracle(commands)


@given(st.lists(plain, max_size=12), plain)
def test_intervals_are_sets_of_bytes(added, probe):
    intervals = Intervals()
    for span in added:
        intervals.add(span)
    assert intervals.overlaps(probe) == bool(covered(added) & covered([probe]))
    assert covered(Span(a, b - a) for a, b in zip(intervals.starts, intervals.stops, strict=True)) == covered(added)
    assert intervals.starts == sorted(intervals.starts) and intervals.stops == sorted(intervals.stops)


def test_readers_of_the_same_memory_need_no_barrier():
    commands = [Copy(Span(0, 64), Span(64 * i, 64)) for i in range(1, 5)]
    assert barriers_before(commands) == [False] * 4


def test_one_barrier_serves_all_that_depend_on_what_came_before():
    commands = [Fill(Span(0, 64)), Fill(Span(64, 64)), Copy(Span(0, 64), Span(128, 64)), Copy(Span(64, 64), Span(192, 64))]
    assert barriers_before(commands) == [False, False, True, False]
