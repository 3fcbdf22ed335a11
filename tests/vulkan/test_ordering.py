"""Reordering keeps every dependency and never needs more barriers."""
from hypothesis import given
from hypothesis import strategies as st

from hierarchos.vulkan.commands import Copy, Dispatch, Fill, Shader, Span
from hierarchos.vulkan.hazards import barriers_before, touches
from hierarchos.vulkan.ordering import dependency_levels, fewest_barriers

NOTHING = Shader("nothing", b"")
plain = st.builds(Span, st.integers(0, 40), st.integers(0, 12))
columns = st.builds(lambda at, rows, first, width: Span(at * 8 + first, (rows - 1) * 8 + width, 8, width),
                    st.integers(0, 3), st.integers(2, 3), st.integers(0, 5), st.integers(1, 3))
spans = plain | columns
span_lists = st.lists(spans, max_size=3).map(tuple)
dispatches = st.builds(lambda reads, writes: Dispatch(NOTHING, (), b"", (1, 1, 1), reads, writes, "d"), span_lists, span_lists)
command_lists = st.lists(dispatches | st.builds(Fill, plain) | st.builds(Copy, plain, plain), max_size=20)


def clash(first: Span, second: Span) -> bool:
    """Whether ranges overlap, but for columns of one matrix that share no byte of its rows."""
    ranges = [set(range(span.address, span.address + span.nbytes)) for span in (first, second)]
    rows = [{(span.address + i) % span.pitch for i in range(span.width)} if span.pitch else None for span in (first, second)]
    return bool(ranges[0] & ranges[1]) and not (first.pitch == second.pitch != 0 and not rows[0] & rows[1])


def conflict(earlier, later) -> bool:
    (reads, writes), (later_reads, later_writes) = touches(earlier), touches(later)
    pairs = [(a, b) for a in writes for b in (*later_reads, *later_writes)] + [(a, b) for a in reads for b in later_writes]
    return any(clash(a, b) for a, b in pairs)


@given(command_lists)
def test_levels_are_longest_chains_of_conflicts(commands):
    levels = []
    for i, command in enumerate(commands):
        levels.append(1 + max((levels[j] for j in range(i) if conflict(commands[j], command)), default=0))
    assert dependency_levels(commands) == levels


@given(command_lists)
def test_the_new_order_keeps_conflicting_commands_in_order_with_no_more_barriers(commands):
    order = fewest_barriers(commands)
    place = {index: position for position, index in enumerate(order)}
    assert sorted(order) == list(range(len(commands)))
    for i, earlier in enumerate(commands):
        assert all(place[i] < place[j] for j in range(i + 1, len(commands)) if conflict(earlier, commands[j]))
    assert sum(barriers_before([commands[i] for i in order])) <= sum(barriers_before(commands))


def test_two_independent_chains_share_their_barriers():
    left = [Copy(Span(64 * i, 64), Span(64 * i + 64, 64)) for i in range(4)]
    right = [Copy(Span(9000 + 64 * i, 64), Span(9064 + 64 * i, 64)) for i in range(4)]
    interleaved = [c for pair in zip(left, right, strict=True) for c in pair]
    assert [(left + right)[i] for i in fewest_barriers(left + right)] == interleaved
    assert sum(barriers_before(left + right)) == 6 and sum(barriers_before(interleaved)) == 3
