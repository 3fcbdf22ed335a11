"""What is seen while a run goes on."""
from __future__ import annotations

import io

from pipelines.devices import first_line, selector
from pipelines.progress import Progress, duration


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_plain_lines_come_every_few_seconds_with_time_left():
    out, clock = io.StringIO(), Clock()
    bar = Progress(out, terminal=False, clock=clock).start("train", 10)
    for step in range(1, 11):
        clock.now += 2
        bar.update(step, loss=1 / step, rate="500 tokens/s")
    assert out.getvalue().splitlines() == [
        "train  1/10  loss 1  rate 500 tokens/s  18 s left", "train  4/10  loss 0.25  rate 500 tokens/s  12 s left",
        "train  7/10  loss 0.1429  rate 500 tokens/s  6 s left", "train  10/10  loss 0.1  rate 500 tokens/s"]


def test_time_left_of_a_resumed_run_counts_its_own_pace():
    clock = Clock()
    bar = Progress(io.StringIO(), terminal=False, clock=clock).start("train", 100, done=90)
    clock.now = 10.0
    assert bar.remaining(95) == "10 s"


def test_bar_on_a_terminal_shows_figures():
    out = io.StringIO()
    progress = Progress(out, terminal=True)
    bar = progress.start("train", 10)
    bar.update(10, loss=0.5, rate="500 tokens/s")
    progress.line("a line")
    bar.finish()
    assert "10/10" in out.getvalue() and "loss 0.5" in out.getvalue() and "a line" in out.getvalue()


def test_table_is_aligned():
    out = io.StringIO()
    Progress(out, terminal=False).table("two", ["a", "bbb"], [["xx", "y"]])
    assert out.getvalue() == "two\n  a   bbb\n  xx  y\n"


def test_durations():
    assert [duration(seconds) for seconds in (12, 185, 7800)] == ["12 s", "3 min 5 s", "2 h 10 min"]


def test_first_line_names_the_device_and_says_slow_for_software():
    from hierarchos.vulkan import DeviceInfo

    assert first_line(DeviceInfo(0, "Arc A770", "discrete", driver="Mesa 25")) == "device: Arc A770, discrete, Mesa 25"
    assert first_line(DeviceInfo(0, "llvmpipe", "software", driver="Mesa 25")) == "device: llvmpipe, Mesa 25 (software: slow, for tests)"


def test_device_forms():
    assert [selector(select) for select in ("auto", "vulkan:1", "uhd 630")] == ["auto", "1", "uhd 630"]
