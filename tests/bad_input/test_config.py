"""Command lines and configuration files that are wrong: all mistakes at once, before anything starts."""

from __future__ import annotations

import pytest

from tests.bad_input.config.files import FILES
from tests.bad_input.config.keys import KEYS
from tests.bad_input.config.models import MODELS
from tests.bad_input.config.places import PLACES
from tests.bad_input.config.words import WORDS
from tests.bad_input.table import by_name

ROWS = [*KEYS, *WORDS, *MODELS, *PLACES, *FILES]


@pytest.mark.parametrize(**by_name(ROWS))
def test_wrong_settings_are_told_before_anything_starts(check, row):
    check(row)


def test_no_message_ever_advises_a_plus():
    assert [row.what for row in ROWS if "use +" in row.message] == []
