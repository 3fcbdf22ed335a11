"""The smallest model of which every part is there: one configuration, its command line, a package of it."""

from __future__ import annotations

from pathlib import Path

SIZES = {
    "architecture_revision": "coherent-v9",
    "context_dim": 16,
    "persistent_dim": 3,
    "ltm_slots": 8,
    "ltm_key_dim": 4,
    "ltm_val_dim": 4,
    "ltm_topk": 2,
    "max_h_steps": 2,
    "max_l_steps": 1,
    "h_stride": 2,
}
VOCABULARY = 61
WORDS = ["model=coherent_v9_tiny", *(f"model.config.{name}={value}" for name, value in SIZES.items()), "tokenizer.vocab_size=300"]


def small(**changes):
    """Its configuration, resolved."""
    from hierarchos.models.coherent_v9.config import resolve

    return resolve({**SIZES, "vocab_size": VOCABULARY, **changes})


def talker(place: Path, seed: int = 0, name: str = "talker", **changes) -> tuple:
    """Writes a package with a tokenizer of 270 tokens; returns its configuration, its values and its tokenizer."""
    from hierarchos.data.tokenizer_training import train_tokenizer
    from hierarchos.models.coherent_v9.package import save
    from hierarchos.models.coherent_v9.parameters import initial_values

    tokenizer = train_tokenizer(["to be or not to be, that is the question"] * 3, 270)
    cfg = small(vocab_size=tokenizer.size, **changes)
    tokenizer.save(place / "words")
    files = {path.name: path.read_text(encoding="utf-8") for path in (place / "words").iterdir()}
    values = initial_values(cfg, seed)
    save(place / name, cfg, values, files=files)
    return cfg, values, tokenizer
