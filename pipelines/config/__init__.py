"""The settings: one frozen dataclass per group. Defaults live here; the text under a field is its help."""
from pipelines.config.root import Config

__all__ = ["Config"]
