"""Wrong input is told at once. The table of messages is in tests/bad_input/."""
from __future__ import annotations

import time


def test_wrong_input_ends_within_a_second(place):
    best = 9.0
    for _ in range(3):
        begun = time.perf_counter()
        process = place.start("train", "train.learning_rte=0.1")
        _, err = process.communicate()
        best = min(best, time.perf_counter() - begun)
        assert process.returncode == 2 and "train.learning_rate" in err
    assert best < 1.0
