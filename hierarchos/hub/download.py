"""Fetching from the Hub (or the server that HF_ENDPOINT names) into the cache that all its tools share. Nothing is unpickled or run."""

from __future__ import annotations

from pathlib import Path

from hierarchos.errors import UserError
from hierarchos.hub.client import COMMIT, hub_client
from hierarchos.hub.refusals import refusal
from hierarchos.hub.write import COMPANIONS

PATTERNS = ("config.json", "hierarchos*.json", "model.safetensors", "model-*.safetensors", "model.safetensors.index.json", *COMPANIONS)
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
             "generation_config.json", "config.json")
CARD = ("README.md", ".huggingface.yaml")


def download(repository: str, revision: str | None = None, what: str = "model", patterns: tuple[str, ...] | None = None) -> Path:
    """The folder of a snapshot, named after its commit. `revision`: branch, tag or commit; `what`: "model", "tokenizer" or "dataset".

    Raises `UserError` for whatever the Hub refuses, a broken connection, or a package without safetensors."""
    chosen = patterns or {"model": (*PATTERNS, *ADAPTER), "tokenizer": TOKENIZER, "dataset": CARD}[what]
    folder = snapshot(repository, revision, what, chosen)
    if what == "model" and patterns is None:
        check_package(folder, repository)
    if what == "tokenizer" and not (folder / "tokenizer.json").is_file():
        raise UserError(f"{repository} has no tokenizer.json", where=f"tokenizer.repo={repository}")
    return folder


def snapshot(repository: str, revision: str | None, what: str, patterns: tuple[str, ...]) -> Path:
    """Files of one commit in the standard cache; what the client refuses becomes a `UserError`."""
    kind = "dataset" if what == "dataset" else "model"
    try:
        return Path(hub_client().snapshot_download(repository, repo_type=kind, revision=revision, allow_patterns=list(patterns)))
    except Exception as error:
        raise refusal(error, what, repository, revision) or error from error


def commit_of(repository: str, revision: str | None, what: str) -> str:
    """The commit that a branch or tag means now; from the cache where the Hub cannot be asked."""
    return download(repository, revision, what, CARD).name if revision is None or not COMMIT.fullmatch(revision) else revision


def check_package(folder: Path, repository: str) -> None:
    """Weights that can be read without running code, and the configuration they belong to."""
    where = f"model.repo={repository}"
    if not any(folder.glob("*.safetensors")):
        hint = "pickled weights (.bin, .pt) are never read: they can run code"
        raise UserError(f"{repository} has no safetensors", where=where, hint=hint)
    if not any((folder / name).is_file() for name in ("config.json", "adapter_config.json", "hierarchos_config.json")):
        raise UserError(f"{repository} has no config.json", where=where)


def damaged_files(folder: Path, hashes: dict[str, str]) -> list[Path]:
    """Files of a snapshot whose SHA-256 (by file name) is not the one that the Hub keeps them under; large files only."""
    found = []
    for name, digest in hashes.items():
        kept_as = (folder / name).resolve().name                     # the cache names large files after their SHA-256
        if (folder / name).is_symlink() and len(kept_as) == 64 and kept_as != digest:
            found.append((folder / name).resolve())
    return found
