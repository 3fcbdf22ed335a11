"""Putting a package on the Hub (or the server that HF_ENDPOINT names): only where somebody asks for it, private unless told otherwise."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hierarchos.errors import UserError
from hierarchos.hub.client import endpoint, has_token, hub_client, is_offline
from hierarchos.hub.refusals import LOGIN, broken, by_status, causes


@dataclass(frozen=True)
class Published:
    """Where a package is now: the commit, and the page that shows it."""

    commit: str
    address: str


def upload(folder: str | Path, repository: str, private: bool = True, branch: str = "main", message: str = "Upload a package") -> Published:
    """All files of a folder as one commit: the repository is made where there is none, and shows all of them or none.

    Raises `UserError` for whatever the Hub refuses and for a broken connection."""
    client = hub_client()
    try:
        api = client.HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        if branch != "main":
            api.create_branch(repository, branch=branch, exist_ok=True)
        made = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message, revision=branch)
    except Exception as error:
        raise refused(error, repository) or error from error
    return Published(made.oid, f"{endpoint()}/{repository}/tree/{branch}")


def check_can_upload(repository: str) -> None:
    """What would be refused in the end is refused at the beginning, without asking the Hub: a name, no token, no network."""
    client = hub_client()
    where = f"export.repo={repository}"
    try:
        client.utils.validate_repo_id(repository)
    except client.errors.HFValidationError:
        raise no_name(repository) from None
    if "/" not in repository:
        raise no_name(repository)
    if is_offline():
        raise UserError("HF_HUB_OFFLINE forbids to upload", where=where, hint="unset HF_HUB_OFFLINE, or leave the stage upload out")
    if not has_token():
        raise UserError("uploading needs a token that may write", where=where, hint="HF_TOKEN, or that of a login", command=LOGIN)


def no_name(repository: str) -> UserError:
    """A text that no repository can have as its name."""
    return UserError(f"{repository!r} is not the name of a repository", where="export.repo", hint="names look like owner/name")


def refused(error: BaseException, repository: str) -> UserError | None:
    """The message for an error of the client, or None for an error of another kind."""
    where, chain = f"export.repo={repository}", list(causes(error))
    errors = hub_client().errors
    status = next((one.response.status_code for one in chain if isinstance(one, errors.HfHubHTTPError)), None)
    if status == 403:
        return UserError(f"the token may not write to {repository}", where=where, command=LOGIN,
                         hint="give it the right to write there, or use another one")
    if status == 404:
        return UserError(f"the Hub has no place {repository} that you can write to", where=where,
                         hint="an owner is your own name there, or that of an organization you belong to")
    if status in (409, 412):
        return UserError(f"{repository} has changed meanwhile", where=where, hint="the same command again uploads to what is there now")
    if status is not None:
        return by_status(status, repository, where)
    if any(broken(one) for one in chain):
        return UserError("the Hub cannot be reached", where=where,
                         hint=[f"asked: {endpoint()}", "nothing was published; large files that have arrived are not sent again"])
    return None
