"""The part of the Hub's protocol that writes: repositories, LFS-style uploads, commits in lines of JSON."""
from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.hub.server import Handler, Repository

CALL = re.compile(r"/api/models/([^/]+/[^/]+)/(preupload|commit|branch)/([^/]+)")
BATCH = re.compile(r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch")


class Writing:
    """One request that writes."""

    def __init__(self, handler: Handler):
        self.handler, self.hub = handler, handler.hub

    def answer(self) -> Callable[[], None] | None:
        """The method for this address, or None."""
        path = self.handler.path_only
        if path.startswith("/storage/"):                          # the address itself is the permission, as on the Hub
            return partial(self.store, path.rpartition("/")[2])
        if path == "/api/validate-yaml":
            return partial(self.handler.send_json, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            return self.create
        found = CALL.fullmatch(path) or BATCH.fullmatch(path)
        if found is None:
            return None
        if (repository := self.writable(found[1])) is None:
            return lambda: None
        if found.re is BATCH:
            return self.batch
        return partial(getattr(self, found[2]), repository, found[1], found[3])

    def writable(self, name: str) -> Repository | None:
        """The repository, where the token may write; else the refusal has been sent."""
        repository = self.handler.allowed("models", name)
        if repository is not None and name.partition("/")[0] not in self.hub.owners:
            self.handler.refuse(403, None)
            return None
        return repository

    def create(self) -> None:
        """A new repository; 409 where there is one."""
        asked = json.loads(self.handler.body)
        name = f"{asked['organization']}/{asked['name']}"
        if self.handler.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self.handler.refuse(401, None)
        if ("models", name) in self.hub.repositories:
            there = json.dumps({"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"})
            return self.handler.send(409, there.encode(), {"Content-Type": "application/json"})
        if asked["organization"] not in self.hub.owners:
            return self.handler.refuse(403, None)
        self.hub.add("models", name, {}, private=asked.get("visibility") == "private")
        return self.handler.send_json({"url": f"{self.hub.url}/{name}"})

    def branch(self, repository: Repository, name: str, branch: str) -> None:
        """A branch that begins where main is."""
        if branch in repository.refs:
            return self.handler.refuse(409, None)
        repository.refs[branch] = repository.refs["main"]
        return self.handler.send_json({})

    def preupload(self, repository: Repository, name: str, branch: str) -> None:
        """Which files are large."""
        from tests.hub.server import LARGE

        files = json.loads(self.handler.body)["files"]
        self.handler.send_json({"files": [{"path": one["path"], "shouldIgnore": False,
                                           "uploadMode": "lfs" if one["path"].endswith(LARGE) else "regular"} for one in files]})

    def batch(self) -> None:
        """Where the large files go."""
        objects = json.loads(self.handler.body)["objects"]
        self.handler.send_json({"transfer": "basic", "objects": [
            {**one, "actions": {"upload": {"href": f"{self.hub.storage}/storage/{one['oid']}"}}} for one in objects]})

    def store(self, digest: str) -> None:
        """A large file."""
        if hashlib.sha256(self.handler.body).hexdigest() != digest:
            return self.handler.send(400)
        self.hub.arrived[digest] = self.handler.body
        return self.handler.send(200)

    def commit(self, repository: Repository, name: str, branch: str) -> None:
        """All files at once."""
        files = dict(repository.commits[repository.refs[branch]])
        for line in self.handler.body.splitlines():
            kind, value = (one := json.loads(line))["key"], one["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.hub.arrived[value["oid"]]
        made = repository.commit(files, branch)
        self.handler.send_json({"commitOid": made, "commitUrl": f"{self.hub.url}/{name}/commit/{made}", "success": True})
