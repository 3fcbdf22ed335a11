"""Blocks that models are written with; parameters are declared at first use, by their Hugging Face names."""
