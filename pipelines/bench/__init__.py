"""Timed workloads: `hierarchos bench [NAMES] [--json]`."""
