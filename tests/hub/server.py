"""A small server that speaks the Hub's protocol, for tests: repositories in memory, faults on demand, every request noted.

    with HubServer() as hub:
        repo = hub.add("models", "owner/tiny", {"config.json": b"{}", "model.safetensors": b"..."})
        hub.fail("model.safetensors", cut_after(1000), 503)     # the first request for it breaks off, the second is refused
        HF_ENDPOINT=hub.url hierarchos generate model=hub model.repo=owner/tiny ...

Large files (`*.safetensors`, `*.parquet`) are served like LFS: a redirect with X-Linked-Etag to a second address with byte ranges.
"""
from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = (".safetensors", ".parquet", ".bin")
ADDRESS = re.compile(r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
NAME = r"([^/]+(?:/(?!revision/|tree/|paths-info/)[^/]+)?)"
CALL = re.compile(rf"/api/(models|datasets)/{NAME}(?:/(revision|tree|paths-info)/([^/]+)(?:/(.*))?)?")


@dataclass
class Repository:
    """Commits by name (40 digits) with their files, and what each branch or tag points to."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    private: bool = False
    gated: bool = False
    moved_to: str | None = None

    def commit(self, files: dict[str, bytes], ref: str = "main") -> str:
        """A new commit with these files, to which `ref` points from now on."""
        name = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[name], self.refs[ref] = files, name
        return name

    def find(self, revision: str) -> str | None:
        """The commit that a branch, tag or (whole) commit name means."""
        return self.refs.get(revision) or (revision if revision in self.commits else None)


@dataclass(frozen=True)
class Cut:
    """A fault: the connection ends after so many bytes of the file."""

    after: int


def cut_after(count: int) -> Cut:
    """The connection ends after `count` bytes."""
    return Cut(count)


class HubServer:
    """The server; `url` is its HF_ENDPOINT, `token` the one that it accepts, `requests` what was asked: (method, path, headers)."""

    def __init__(self, token: str = "hf_right"):
        self.token = token
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.faults: dict[str, list[object]] = {}
        self.requests: list[tuple[str, str, dict]] = []
        self.arrived: dict[str, bytes] = {}                       # large files on their way into a commit, by SHA-256
        self.owners = {"owner"}                                    # where the token may write
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": self}))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.storage = self.url.replace("127.0.0.1", "localhost")          # another host, as the Hub's storage is

    def __enter__(self) -> HubServer:
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def add(self, kind: str, name: str, files: dict[str, bytes], **properties: object) -> Repository:
        """A repository of models or datasets with one commit on main."""
        made = self.repositories[kind, name] = Repository(**properties)
        made.commit(files)
        return made

    def fail(self, ending: str, *faults: object) -> None:
        """The next requests for an address with this ending: statuses (503), (status, headers), or Cut, one each."""
        self.faults[ending] = list(faults)

    def fault_for(self, path: str) -> object:
        """The fault that is due for this address, or None."""
        waiting = next((faults for ending, faults in self.faults.items() if path.endswith(ending) and faults), None)
        return waiting.pop(0) if waiting else None

    def asked(self, part: str, method: str = "GET") -> list[dict]:
        """Headers of the requests whose address contains `part`."""
        return [headers for how, path, headers in self.requests if how == method and part in path]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.body = self.received()
        self.form = parse_qs(self.body.decode())
        self.answer()

    def do_PUT(self) -> None:
        self.body = self.received()
        self.answer()

    def received(self) -> bytes:
        """The body of a request, sent whole or in chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def answer(self) -> None:
        """Notes the request and sends it to its part of the protocol."""
        self.path_only = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, self.path_only, {name.title(): value for name, value in self.headers.items()}))
        self.fault = self.hub.fault_for(self.path_only) if self.command != "HEAD" else None
        if self.fault is not None and not isinstance(self.fault, Cut):
            status, headers = self.fault if isinstance(self.fault, tuple) else (self.fault, {})
            return self.send(status, headers=headers)
        if self.command in ("POST", "PUT") and (answer := writing(self)) is not None:
            return answer()
        if self.path_only.startswith("/blob/"):
            return self.blob(self.path_only.removeprefix("/blob/"))
        if found := CALL.fullmatch(self.path_only):
            return self.call(*found.groups())
        if found := ADDRESS.fullmatch(self.path_only):
            return self.resolve(found[1] or "models", *found.groups()[1:])
        return self.refuse(404, "NotFound")

    def call(self, kind: str, name: str, what: str | None, revision: str | None, below: str | None) -> None:
        """What a repository is, and which files a commit has."""
        repository = self.allowed(kind, name)
        if repository is None:
            return None
        if repository.moved_to:
            moved = self.path.replace(name, repository.moved_to, 1)
            return self.send(307, headers={"Location": moved})
        commit = repository.find(revision or "main")
        if commit is None:
            return self.refuse(404, "RevisionNotFound")
        files = repository.commits[commit]
        if what in ("tree", "paths-info"):
            wanted = self.form.get("paths", []) if what == "paths-info" else None
            return self.send_json(listing(files, wanted, below or ""))
        return self.send_json({"id": name, "modelId": name, "sha": commit, "private": repository.private, "gated": repository.gated,
                               "tags": [], "downloads": 0, "likes": 0, "siblings": [{"rfilename": path} for path in files]})

    def resolve(self, kind: str, name: str, revision: str, path: str) -> None:
        """A file: its bytes, or the way to them."""
        repository = self.allowed(kind, name)
        if repository is None:
            return None
        if repository.moved_to:
            return self.send(307, headers={"Location": self.path.replace(name, repository.moved_to, 1)})
        commit = repository.find(revision)
        if commit is None:
            return self.refuse(404, "RevisionNotFound")
        content = repository.commits[commit].get(path)
        if content is None:
            return self.refuse(404, "EntryNotFound", {"X-Repo-Commit": commit})
        if not path.endswith(LARGE):
            return self.file(content, {"X-Repo-Commit": commit, "ETag": f'"{blob_id(content)}"'})
        digest = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": commit, "X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content)),
                   "Location": f"{self.hub.storage}/blob/{digest}/{path}"}
        return self.send(302, headers=headers)

    def blob(self, address: str) -> None:
        """A large file by its hash."""
        digest = address.partition("/")[0]
        contents = (content for repository in self.hub.repositories.values() for files in repository.commits.values()
                    for content in files.values())
        found = next((content for content in contents if hashlib.sha256(content).hexdigest() == digest), None)
        return self.refuse(404, "EntryNotFound") if found is None else self.file(found, {"ETag": f'"{digest}"'})

    def file(self, content: bytes, headers: dict) -> None:
        """All bytes, or those of a range; a Cut ends the connection among them."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        if asked:
            headers = headers | {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
        whole = content[start:]
        if isinstance(self.fault, Cut):
            self.start(206 if asked else 200, headers, len(whole))
            self.wfile.write(whole[:self.fault.after])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self.send(206 if asked else 200, whole, headers)

    def allowed(self, kind: str, name: str) -> Repository | None:
        """The repository, when it is there and the sender may see it; else the refusal has been sent."""
        repository, given = self.hub.repositories.get((kind, name)), self.headers.get("Authorization")
        known = given == f"Bearer {self.hub.token}"
        if given is not None and not known:
            self.refuse(401, None, {"X-Error-Message": "Invalid credentials in Authorization header"})
        elif repository is None or (repository.private and not known):
            self.refuse(404 if known else 401, "RepoNotFound")
        elif repository.gated and "/resolve/" in self.path_only:
            self.refuse(403 if known else 401, "GatedRepo")
        else:
            return repository
        return None

    def refuse(self, status: int, code: str | None, headers: dict | None = None) -> None:
        """An error in the Hub's form."""
        self.send(status, headers={**({"X-Error-Code": code} if code else {}), **(headers or {})})

    def send_json(self, value: object) -> None:
        self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, content: bytes = b"", headers: dict | None = None) -> None:
        self.start(status, headers or {}, len(content))
        if self.command != "HEAD":
            self.wfile.write(content)

    def start(self, status: int, headers: dict, length: int) -> None:
        """Status line and headers."""
        self.send_response(status)
        for name, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def listing(files: dict[str, bytes], wanted: list[str] | None, below: str) -> list[dict]:
    """Entries of files and folders, as /tree and /paths-info give them."""
    folders = {path.rsplit("/", depth)[0] for path in files for depth in range(1, path.count("/") + 1)}
    entries = [{"type": "directory", "oid": blob_id(path.encode()), "size": 0, "path": path} for path in sorted(folders)]
    entries += [entry(path, content) for path, content in files.items()]
    return [one for one in entries if (one["path"] in wanted if wanted is not None else one["path"].startswith(below))]


def entry(path: str, content: bytes) -> dict:
    """A file; large ones with their LFS hash."""
    found = {"type": "file", "oid": blob_id(content), "size": len(content), "path": path}
    if path.endswith(LARGE):
        found["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return found


def blob_id(content: bytes) -> str:
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def writing(handler: Handler) -> Callable[[], None] | None:
    """What answers a request that writes, or None for one that reads."""
    from tests.hub.writing import Writing

    return Writing(handler).answer()
