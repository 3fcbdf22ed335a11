"""What the Hub or the way to it refuses, told for people: one sentence, the setting that asked, what to type."""
from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecodeError

from hierarchos.errors import UserError, nearest
from hierarchos.hub.client import cached_names, endpoint, has_token, hub_client, is_offline

AGAIN = "what has come is kept: the same command again goes on from there"
LOGIN = "hf auth login"
SETTINGS = {"model": "model", "dataset": "data", "tokenizer": "tokenizer"}        # what is fetched -> its group of settings


def refusal(error: BaseException, what: str, repository: str, revision: str | None) -> UserError | None:
    """The message for an error of the client, or None for an error of another kind.

    what: "model", "dataset" or "tokenizer". The first error of the chain that says something decides: the client wraps
    what the server answered into errors about its cache."""
    errors = hub_client().errors
    group = SETTINGS[what]
    where = f"{group}.repo={repository}" + (f" {group}.revision={revision}" if revision else "")
    chain = list(causes(error))
    if any(isinstance(one, errors.HFValidationError) for one in chain):
        return UserError(f"{repository!r} is not the name of a repository", where=f"{group}.repo", hint="names look like owner/name")
    if is_offline():
        return offline(what, repository, where)
    found = next((told for one in chain if (told := answered(one, what, repository, revision, where)) is not None), None)
    return found or (unreachable(repository, where) if any(broken(one) for one in chain) else None)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it was raised from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def answered(error: BaseException, what: str, repository: str, revision: str | None, where: str) -> UserError | None:
    """The message for what the server answered; None where it answered nothing."""
    errors = hub_client().errors
    if isinstance(error, errors.GatedRepoError):
        return gated(repository, where)
    if isinstance(error, errors.RevisionNotFoundError):
        hint = "a revision is a branch, a tag or a whole commit name"
        return UserError(f"{repository} has no revision {revision}", where=where, hint=hint)
    if isinstance(error, errors.RepositoryNotFoundError):
        return unknown(what, repository, where)
    if isinstance(error, errors.DisabledRepoError):
        return UserError(f"the Hub has closed {repository}", where=where)
    if isinstance(error, (errors.FileMetadataError, JSONDecodeError)):
        return UserError(f"{endpoint()} does not answer like the Hub", where=where, hint="HF_ENDPOINT says which server is asked")
    if isinstance(error, errors.HfHubHTTPError):
        return by_status(error.response.status_code, repository, where)
    return None


def by_status(status: int, repository: str, where: str) -> UserError:
    """The message for a status without a code of the Hub."""
    if status == 401:
        return UserError("the Hub does not accept the token", where=where, command=LOGIN,
                         hint="it comes from HF_TOKEN where that is set, else from the last login")
    if status == 403:
        return UserError(f"the token may not read {repository}", where=where, hint="give it the right to read this repository")
    if status == 429:
        return UserError("the Hub asks to wait: too many requests", where=where,
                         hint=[AGAIN] if has_token() else [AGAIN, f"more are allowed with a token:  {LOGIN}"])
    if status >= 500:
        return UserError(f"the Hub is out of order (status {status})", where=where, hint=[f"asked: {endpoint()}", AGAIN])
    return UserError(f"the Hub answered with status {status}", where=where, hint=f"asked: {endpoint()}")


def gated(repository: str, where: str) -> UserError:
    """A repository whose owner lets people in one by one."""
    page = f"{endpoint()}/{repository}"
    if has_token():
        return UserError(f"{repository} is gated, and your token has no access yet", where=where, hint=f"ask for it on {page}")
    return UserError(f"{repository} is gated: its owner lets people in", where=where, hint=f"ask for access on {page}, then log in",
                     command=LOGIN)


def unknown(what: str, repository: str, where: str) -> UserError:
    """No such repository, or a private one: the Hub does not tell which."""
    kind = "dataset" if what == "dataset" else "model"
    close = nearest(repository, [name for name in cached_names(kind) if name != repository], 0.75)
    hint = [] if "/" in repository else ["names look like owner/name"]
    hint += ["the token that is used does not open it either"] if has_token() else [f"if it is private, log in first:  {LOGIN}"]
    return UserError(f"the Hub has no {kind} {repository} that you can read", where=where,
                     nearest=f"{where.partition('=')[0]}={close}" if close else None, hint=hint)


def offline(what: str, repository: str, where: str) -> UserError:
    """HF_HUB_OFFLINE is set and the cache does not have everything."""
    local = {"model": "model=local model.path=FOLDER", "dataset": "data=files data.path=FILE",
             "tokenizer": "tokenizer.source=file tokenizer.path=FOLDER"}[what]
    return UserError(f"{repository} is not in the cache, and HF_HUB_OFFLINE forbids to fetch it", where=where,
                     hint="unset HF_HUB_OFFLINE to fetch it once", command=local)


def unreachable(repository: str, where: str) -> UserError:
    """No connection, or one that broke."""
    return UserError(f"the Hub cannot be reached, and {repository} is not (whole) in the cache", where=where,
                     hint=[f"asked: {endpoint()}", AGAIN])


def broken(error: BaseException) -> bool:
    """Whether an error is about a connection: any transport error of the client's HTTP library, or a missing cache entry."""
    errors = hub_client().errors
    transport = any(kind.__name__ in ("TransportError", "RequestException") for kind in type(error).__mro__)
    return transport or isinstance(error, (ConnectionError, errors.LocalEntryNotFoundError))
