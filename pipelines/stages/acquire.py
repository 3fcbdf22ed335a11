"""Finds the rows and the model that the settings name, and knows them by their content."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hierarchos.errors import UserError
from pipelines.hashing import hash_file, hash_json
from pipelines.mixture import sources
from pipelines.stage import Artefact
from pipelines.stages.base import BaseStage
from pipelines.stages.checks import check_package, check_tokenizer_file
from pipelines.stages.gguf import is_gguf, package_of

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.config.data import DataConfig
    from pipelines.stage import Context

CORPUS = "corpus:shakespeare"
PACKAGE_FILES = ("config.json", "hierarchos*.json", "*.safetensors", "*.safetensors.index.json", "tokenizer*.json",
                 "special_tokens_map.json", "*.jinja")


class Acquire(BaseStage):
    """Facts: `files` and `validation_files` (paths of rows), `model` (a package folder, or None for a fresh model), `tokenizer` (a
    folder or file, or None); `commit`, `data_commit` and `tokenizer_commit` of what came from the Hub; `mix`: files and commit of each
    source of data.mix by name."""

    name = "acquire"
    groups = ("model", "data", "tokenizer")

    def check(self, config: Config) -> None:
        """Files and folders that are not there are told before anything starts."""
        if reads_rows(config):
            data_files(config.data)
            validation_files(config.data)
        check_model(config)
        if config.tokenizer.source == "file":
            check_tokenizer_file(config)

    def key(self, context: Context) -> dict:
        """Content of the files, and what is asked of the Hub."""
        config = context.config
        folder = model_folder(config, download=False)
        rows = [*data_files(config.data), *validation_files(config.data)] if reads_rows(config) else []
        return {"rows": [hash_file(path) for path in rows], "hub_rows": hub_references(config.data, {}), **parts_of(config),
                "model": package_hashes(folder) if folder else {"repo": config.model.repo, "revision": config.model.revision},
                "tokenizer": tokenizer_reference(config)}

    def preview(self, context: Context) -> Artefact | None:
        """Local files are known without running."""
        config = context.config
        if "hub" in (config.model.source, config.tokenizer.source) or (reads_rows(config) and hub_sources(config.data)):
            return None
        return Artefact(Path(), hash_json(self.key(context)), {})

    def run(self, context: Context) -> dict:
        """Downloads what is remote; facts say where everything is."""
        config, key = context.config, self.key(context)
        folder = model_folder(config, download=True)
        facts = {"files": [], "validation_files": [], "model": str(folder) if folder else None, "tokenizer": config.tokenizer.path}
        if is_gguf(config.model.path) and config.model.source == "local":
            context.progress.line(f"model: {config.model.path} as float32 in {folder}")
        if config.model.source == "hub":
            key["model"] = package_hashes(folder)
            facts["commit"] = folder.name                     # the Hub client names a snapshot folder after its commit
            refuse_damage(folder, key["model"], config.model.repo)
        if config.tokenizer.source == "hub":
            facts |= acquire_tokenizer(config, key)
        if reads_rows(config):
            facts["files"] = [str(path) for path in data_files(config.data)]
            facts["validation_files"] = [str(path) for path in validation_files(config.data)]
            facts |= acquire_rows(config.data, key)
        if folder is not None:
            facts["model_hash"] = hash_json(key["model"])
        return facts | {"row_files": len(facts["files"]), "data_hash": hash_json([key["rows"], key["hub_rows"]]), "digest": hash_json(key)}


def reads_rows(config: Config) -> bool:
    """Whether a later stage reads rows."""
    return "tokenize" in config.pipeline.stages


def acquire_rows(data: DataConfig, key: dict) -> dict:
    """Asks the Hub for the commits of its data sets, which go into the key, and says where the rows of each source are."""
    commits = {name: data_commit(one) for name, one in hub_sources(data).items()}
    key["hub_rows"] = hub_references(data, commits)
    if not data.mix:
        return {"data_commit": commits[""]} if commits else {}
    return {"mix": {name: {"files": [str(path) for path in source_files(one)], "data_commit": commits.get(name)}
                    for name, one in sources(data).items()}}


def parts_of(config: Config) -> dict:
    """How many files each source of a mixture has: which of the hashed rows are whose."""
    if not config.data.mix or not reads_rows(config):
        return {}
    return {"mix": [[name, len(source_files(one))] for name, one in sources(config.data).items()]}


def hub_sources(data: DataConfig) -> dict[str, DataConfig]:
    """The sources that are on the Hub."""
    return {name: one for name, one in sources(data).items() if one.source == "hub"}


def hub_references(data: DataConfig, commits: dict[str, str]) -> object:
    """What names the rows of the Hub: once they are known by their commits."""
    found = {name: hub_reference(one, commits.get(name, one.revision)) for name, one in hub_sources(data).items()}
    return found if data.mix and found else found.get("")


def data_files(data: DataConfig) -> list[Path]:
    """Files of training rows of all sources; none for a data set of the Hub. UserError with near names where there are none."""
    return [path for one in sources(data).values() for path in source_files(one)]


def source_files(data: DataConfig) -> list[Path]:
    """Files of one source."""
    from hierarchos.data.files import find_files

    if data.source == "hub":
        return []
    return readable(find_files(CORPUS if data.source == "corpus" else data.path))


def validation_files(data: DataConfig) -> list[Path]:
    """Files of validation rows, where they are given."""
    from hierarchos.data.files import find_files

    return readable(find_files(data.validation_path, "data.validation_path")) if data.validation_path else []


def readable(files: list[Path]) -> list[Path]:
    """The files, once each has been opened."""
    from hierarchos.data.files import open_binary

    for path in files:
        open_binary(path).close()
    return files


def hub_reference(data: DataConfig, revision: str | None) -> dict | None:
    """What names a data set of the Hub; its rows are known once `revision` is a commit."""
    if data.source != "hub":
        return None
    return {"repo": data.repo, "subset": data.subset, "split": data.split, "revision": revision, "max_rows": data.max_rows}


def data_commit(data: DataConfig) -> str:
    """The commit that the asked revision means now."""
    from hierarchos.hub.download import commit_of

    return commit_of(data.repo, data.revision, "dataset")


def acquire_tokenizer(config: Config, key: dict) -> dict:
    """Fetches a tokenizer of its own from the Hub; its content goes into the key."""
    from hierarchos.hub.download import download

    folder = download(config.tokenizer.repo, config.tokenizer.revision, "tokenizer")
    key["tokenizer"] = package_hashes(folder)
    return {"tokenizer": str(folder), "tokenizer_commit": folder.name}


def tokenizer_reference(config: Config) -> object:
    """Content of a tokenizer's file, or what is asked of the Hub."""
    tokenizer = config.tokenizer
    if tokenizer.source == "hub":
        return {"repo": tokenizer.repo, "revision": tokenizer.revision}
    return hash_file(tokenizer_file(tokenizer.path)) if tokenizer.source == "file" else None


def refuse_damage(folder: Path, hashes: dict[str, str], repository: str) -> None:
    """Weights that are not those that the Hub named: a disk fault, or a file that was changed in the cache."""
    from hierarchos.hub.download import damaged_files

    damaged = damaged_files(folder, hashes)
    if damaged:
        raise UserError(f"the cached copy of {repository} is damaged", where=f"model.repo={repository}",
                        hint="delete these files; the next run fetches them again:", command=f"rm {' '.join(map(str, damaged))}")


def check_model(config: Config) -> None:
    """A package folder must be there; a fresh model must have an architecture that is."""
    if config.model.source == "local":
        check_package(config)
    elif config.model.source == "fresh" and config.model.config:
        from hierarchos.models.registry import resolve

        resolve({"vocab_size": config.tokenizer.vocab_size, **config.model.config}, "model.config")
    elif config.model.source == "fresh":
        raise UserError("a fresh model needs model.config", where="model.config", command="model=llama_tiny")


def model_folder(config: Config, download: bool) -> Path | None:
    """The package's folder: given, fetched from the Hub when that is allowed, or None. download: also makes one of a GGUF file."""
    if config.model.source == "local":
        return package_of(config) if download and is_gguf(config.model.path) else Path(config.model.path)
    if config.model.source == "hub" and download:
        from hierarchos.hub.download import download as fetch

        return fetch(config.model.repo, config.model.revision)
    return None


def package_hashes(folder: Path) -> dict[str, str]:
    """Content of a package by file name, or of a GGUF file."""
    if is_gguf(folder):
        return {"gguf": hash_file(folder)}
    files = {path for pattern in PACKAGE_FILES for path in folder.glob(pattern)}
    return {path.name: hash_file(path) for path in sorted(files)}


def tokenizer_file(path: str) -> Path:
    """tokenizer.json of a file or folder."""
    return Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
