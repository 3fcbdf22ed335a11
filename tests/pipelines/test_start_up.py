"""What has to answer at once imports nothing heavy, and stays within its CPU time (twice the aim: test machines are shared)."""
from __future__ import annotations

import pytest

from validation.start_up import COMMANDS, measured


@pytest.mark.parametrize("words", COMMANDS)
def test_answers_at_once(words):
    seconds, _, heavy = measured(words)
    assert seconds < 2 * COMMANDS[words]
    assert heavy == [] or words == "check"
