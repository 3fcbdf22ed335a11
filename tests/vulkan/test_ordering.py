"""Reordering keeps every dependency and never needs more barriers."""
from hypothesis import given
from hypothesis import strategies as st

from hierarchos.vulkan.commands import Copy, Dispatch, Fill, Shader, Span
from hierarchos.vulkan.hazards import barriers_before, touches
from hierarchos.vulkan.ordering import dependency_levels, fewest_barriers

NOTHING = Shader("nothing", b"")
spans = st.builds(Span, st.integers(0, 40), st.integers(0, 12))
span_lists = st.lists(spans, max_size=3).map(tuple)
dispatches = st.builds(lambda reads, writes: Dispatch(NOTHING, (), b"", (1, 1, 1), reads, writes, "d"), span_lists, span_lists)
command_lists = st.lists(dispatches | st.builds(Fill, spans) | st.builds(Copy, spans, spans), max_size=20)


def covered(some) -> set[int]:
    return {byte for span in some for byte in range(span.address, span.address + span.nbytes)}


def conflict(earlier, later) -> bool:
    (reads, writes), (later_reads, later_writes) = (map(covered, touches(command)) for command in (earlier, later))
    return bool(writes & later_reads or writes & later_writes or reads & later_writes)


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
