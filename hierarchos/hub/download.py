"""Fetching a package from the Hub (or from the server that HF_ENDPOINT names): safetensors, config and tokenizer only."""

from __future__ import annotations

from pathlib import Path

from hierarchos.errors import UserError
from hierarchos.hub.write import COMPANIONS

PATTERNS = ("config.json", "model.safetensors", "model-*.safetensors", "model.safetensors.index.json", *COMPANIONS)


def download(repository: str, revision: str | None = None, cache: str | Path | None = None, offline: bool = False) -> Path:
    """The folder of a downloaded snapshot, complete and verified by the Hub client; `revision`: branch, tag or commit.

    Raises `UserError` for an unknown or gated repository, an unknown revision, no connection, or a package without safetensors."""
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(repository, revision=revision, cache_dir=cache, allow_patterns=list(PATTERNS), local_files_only=offline)
    except Exception as error:
        raise _explain(error, repository, revision) from error
    found = Path(folder)
    if not any(found.glob("*.safetensors")):
        raise UserError(f"{repository} has no model.safetensors", where=f"revision {revision or 'main'}",
                        hint="pickled weights (.bin) are not read: they can run code")
    return found


def _explain(error: Exception, repository: str, revision: str | None) -> Exception:
    """The client's error as one for people; errors of other kinds are returned as they are."""
    from huggingface_hub import errors

    def told(what: str, hint: str = "", command: str | None = None) -> UserError:
        return UserError(what, where=f"model=hub model.repository={repository}", hint=hint or (), command=command)

    if isinstance(error, errors.GatedRepoError):
        return told(f"{repository} is gated: its owner must grant you access", "ask for access on its page, then log in",
                    "hf auth login")
    if isinstance(error, errors.RevisionNotFoundError):
        return told(f"{repository} has no revision {revision!r}")
    if isinstance(error, errors.RepositoryNotFoundError):
        return told(f"there is no repository {repository!r}, or it is private", "names look like owner/name")
    if isinstance(error, errors.HFValidationError):
        return told(f"{repository!r} is not the name of a repository", "names look like owner/name")
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled | ConnectionError):
        return told(f"{repository} is not in the cache and the Hub cannot be reached",
                    "check the connection, or use model=local model.path=...")
    if isinstance(error, errors.HfHubHTTPError):
        return told(f"the Hub answered: {str(error).splitlines()[0]}")
    return error
