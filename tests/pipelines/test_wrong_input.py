"""Wrong input is told at once. The table of messages is in tests/bad_input/."""
from __future__ import annotations

import os


def test_wrong_input_costs_less_than_a_second(place):
    """Processor time of the child, since wall time depends on what else the machine does."""
    best = 9.0
    for _ in range(3):
        before = os.times()
        process = place.start("train", "train.learning_rte=0.1")
        _, err = process.communicate()
        after = os.times()
        assert process.returncode == 2 and "train.learning_rate" in err
        best = min(best, after.children_user + after.children_system - before.children_user - before.children_system)
    assert best < 1.0
