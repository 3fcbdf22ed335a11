"""Development only: comparisons with the reference libraries (torch, transformers)."""
