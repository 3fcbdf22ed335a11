"""Architectures: config.json resolved to explicit values, and the forward computation over `hierarchos.nn`."""
