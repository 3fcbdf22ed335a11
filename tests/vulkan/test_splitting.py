"""Submissions are cut by estimated time, in order and without loss."""
from hypothesis import given
from hypothesis import strategies as st

from hierarchos.vulkan.commands import Copy, Dispatch, Fill, Shader, Span
from hierarchos.vulkan.splitting import RATES, Rates, estimate, split

SLOW = Rates(operations=100.0, bytes=10.0, command=0.0)
NOTHING = Shader("nothing", b"")


def work(operations: float) -> Dispatch:
    return Dispatch(NOTHING, (), b"", (1, 1, 1), (), (), "work", operations)


@given(st.lists(st.floats(0, 500), max_size=30))
def test_parts_cover_all_commands_in_order_within_the_bound(amounts):
    commands = [work(amount) for amount in amounts]
    parts = split(commands, SLOW, bound=2.0)
    assert [i for part in parts for i in part] == list(range(len(commands)))
    for part in parts:
        assert len(part) <= 1 or sum(estimate(commands[i], SLOW) for i in part) <= 2.0 + 1e-9


def test_parts_are_as_long_as_the_bound_allows():
    assert split([work(100)] * 5, SLOW, bound=2.0) == [range(0, 2), range(2, 4), range(4, 5)]


def test_no_bound_means_one_part():
    assert split([work(1e9)] * 3, SLOW, None) == [range(0, 3)]


def test_estimates_count_operations_or_bytes_whichever_takes_longer():
    assert estimate(Dispatch(NOTHING, (), b"", (1, 1, 1), (), (), "d", 100.0, 100.0), SLOW) == 10.0
    assert estimate(Fill(Span(0, 20)), SLOW) == 2.0
    assert estimate(Copy(Span(0, 20), Span(20, 20)), SLOW) == 4.0
    assert set(RATES) == {"discrete", "integrated", "virtual", "software"}
