"""How Hydra reads our configuration files: like its own file source, but a file's package never depends on a header line's place."""
from __future__ import annotations

from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigLoadError, ConfigResult
from omegaconf import Container, OmegaConf

from pipelines.hashing import flatten
from pipelines.settings.header import package_of
from pipelines.settings.yaml_file import read

MARKS = "required"          # in a file's header: the keys that it marks with ???


class HierarchosConfigSource(FileConfigSource):
    """`hierarchos://FOLDER` in Hydra's search path."""

    @staticmethod
    def scheme() -> str:
        return "hierarchos"

    def load_config(self, config_path: str) -> ConfigResult:
        path = Path(self.path) / self._normalize_file_name(config_path)
        if not path.is_file():
            raise ConfigLoadError(f"there is no {path}")
        file = read(path)
        package = package_of(config_path, file.text)
        content = OmegaConf.create({} if file.node is None else file.loader.construct_document(file.node))
        header = {"package": package or "_global_", MARKS: marked(content, package)}
        required.update(header[MARKS])
        return ConfigResult(config=content, path=f"{self.scheme()}://{self.path}", provider=self.provider, header=header)


required: set[str] = set()      # keys that the files read since the last `forget` mark with ???; merging would drop the mark


def marked(config: Container, package: str) -> list[str]:
    """Dotted keys of a file whose value is ???."""
    values = flatten(OmegaConf.to_container(config, resolve=False), package)
    return [key for key, value in values.items() if value == "???"]


def forget() -> None:
    """Forgets which keys earlier compositions required."""
    required.clear()


def register() -> None:
    """Makes the source known to Hydra."""
    Plugins.instance()                                    # discovers Hydra's own sources first
    SourcesRegistry.instance().register(HierarchosConfigSource)
