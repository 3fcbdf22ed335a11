"""The built-in text: thirteen plays of Shakespeare, public domain (PROVENANCE.md says where they come from)."""

from pathlib import Path

CORPUS = Path(__file__).parent


def corpus_files() -> list[Path]:
    """The shipped .txt files, one play each, sorted by name."""
    return sorted(CORPUS.glob("*.txt"))
