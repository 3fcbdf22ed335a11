"""What every causal family promises besides its numbers: a cache changes nothing, documents in one row and padding do not matter."""
import pytest

from hierarchos.models.registry import FAMILIES, family, resolve
from tests.generation.test_cache import test_cached_logits_equal_those_of_the_whole_prefix as cache_changes_nothing
from tests.models import twin
from tests.models.test_forward import test_documents_in_one_row_do_not_see_each_other as documents_are_apart
from tests.models.test_forward import test_padding_changes_nothing as padding_changes_nothing
from validation.tiny import table, variants

LENGTH_DECIDES = {"dynamic", "longrope"}     # rotations that depend on the length of the longest row, so that prefixes differ


def is_causal(tiny) -> bool:
    """Whether a prefix gives the same as part of a longer row."""
    scaling = (tiny.config.get("rope_parameters") or {}).get("rope_type")
    sees_both_sides = tiny.config.get("use_bidirectional_attention") or not getattr(resolve(tiny.raw).config, "causal", True)
    return not sees_both_sides and scaling not in LENGTH_DECIDES


VARIANTS = {f"{tiny.model_type} {tiny.name}": tiny.raw for name in table() if name in FAMILIES and family(name).task == "causal"
            for tiny in variants(name) if is_causal(tiny)}


@pytest.mark.parametrize("name", VARIANTS)
def test_cache_packing_and_padding(name, monkeypatch):
    monkeypatch.setitem(twin.CONFIGS, name, VARIANTS[name])

    cache_changes_nothing(name, monkeypatch)
    documents_are_apart(name)
    padding_changes_nothing(name, "left")
