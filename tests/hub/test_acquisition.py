"""What comes from the Hub: pinned, in the shared cache, resumed, and every refusal told; against a server of the Hub's protocol."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from hierarchos.data.hub import read_hub_rows
from hierarchos.data.rows import RowReport
from hierarchos.errors import UserError
from hierarchos.hub.download import commit_of, damaged_files, download
from tests.hub.server import HubServer, cut_after

WEIGHTS = bytes(range(256)) * 40
PACKAGE = {"config.json": b"{}", "model.safetensors": WEIGHTS, "tokenizer.json": b"{}", "pytorch_model.bin": b"never", "notes/a.md": b"x"}
ROWS = {"data/train.jsonl": b"".join(b'{"text": "row %d"}\n' % number for number in range(20)), "README.md": b"---\nlicense: mit\n---\n"}


@pytest.fixture
def full(hub: HubServer) -> HubServer:
    """A Hub with one repository of each kind."""
    hub.add("models", "owner/tiny", PACKAGE)
    hub.add("models", "owner/closed", PACKAGE, private=True)
    hub.add("models", "owner/gated", PACKAGE, gated=True)
    hub.add("models", "owner/pickled", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    hub.add("models", "owner/bare", {"model.safetensors": WEIGHTS})
    hub.add("datasets", "owner/rows", ROWS)
    hub.add("datasets", "owner/pictures", {"train/a.png": b"x"})
    return hub


def ranges(hub: HubServer) -> list[str | None]:
    return [headers.get("Range") for headers in hub.asked("/blob/")]


def test_only_what_is_read_comes_into_the_shared_cache(full, tmp_path):
    folder = download("owner/tiny")
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert folder == tmp_path / "cache/models--owner--tiny/snapshots" / folder.name
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS


def test_branches_tags_and_commits_name_a_snapshot_after_its_commit(full):
    repository = full.repositories["models", "owner/tiny"]
    first = repository.refs["main"]
    repository.refs["v1"] = first
    second = repository.commit({**PACKAGE, "config.json": b'{"new": 1}'})
    assert [download("owner/tiny", revision).name for revision in (None, "main", "v1", first)] == [second, second, first, first]
    assert commit_of("owner/tiny", "v1", "model") == first


def test_second_fetch_asks_for_no_file(full):
    download("owner/tiny")
    full.requests.clear()
    download("owner/tiny")
    assert full.asked("/resolve/") == [] and full.asked("/blob/") == []


def test_new_commit_fetches_only_what_changed(full):
    download("owner/tiny")
    full.requests.clear()
    full.repositories["models", "owner/tiny"].commit({**PACKAGE, "config.json": b'{"new": 1}'})
    assert (download("owner/tiny") / "config.json").read_bytes() == b'{"new": 1}'
    assert full.asked("/blob/") == [] and len(full.asked("config.json")) == 1


def test_token_goes_to_the_hub_and_not_to_its_storage(full, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", full.token)
    download("owner/closed")
    assert {headers["Authorization"] for headers in full.asked("/api/models/owner/closed")} == {f"Bearer {full.token}"}
    assert [headers.get("Authorization") for headers in full.asked("/blob/")] == [None]


def test_moved_repository_is_followed(full):
    full.add("models", "owner/old", {}, moved_to="owner/tiny")
    assert (download("owner/old") / "model.safetensors").read_bytes() == WEIGHTS


def test_cut_connection_goes_on_where_it_broke(full):
    full.fail("model.safetensors", cut_after(4000))
    folder = download("owner/tiny")
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert ranges(full) == [None, "bytes=4000-"]


def test_one_refusal_for_being_too_fast_is_waited_for(full):
    full.fail("model.safetensors", (429, {"Retry-After": "1"}))
    assert (download("owner/tiny") / "model.safetensors").read_bytes() == WEIGHTS


def test_connection_that_stays_away_is_told_and_the_next_call_completes(full):
    full.fail("model.safetensors", cut_after(4000), *[cut_after(0)] * 8)
    with pytest.raises(UserError, match="the Hub cannot be reached, and owner/tiny is not"):
        download("owner/tiny")
    full.faults.clear()
    assert (download("owner/tiny") / "model.safetensors").read_bytes() == WEIGHTS


def test_cached_snapshot_serves_when_the_hub_is_out_of_order(full):
    first = download("owner/tiny")
    full.fail("/revision/main", 503)
    assert download("owner/tiny") == first


def test_offline_the_cache_serves_branches_and_commits(full, monkeypatch):
    folder = download("owner/tiny")
    full.requests.clear()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert download("owner/tiny") == folder and download("owner/tiny", folder.name) == folder
    assert full.requests == []


def test_changed_weights_in_the_cache_are_found(full):
    folder = download("owner/tiny")
    good = (folder / "model.safetensors").resolve().name
    assert damaged_files(folder, {"model.safetensors": good}) == []
    assert damaged_files(folder, {"model.safetensors": "0" * 64}) == [(folder / "model.safetensors").resolve()]


def test_rows_come_from_the_pinned_commit(full):
    commit = commit_of("owner/rows", None, "dataset")
    full.repositories["datasets", "owner/rows"].commit({**ROWS, "data/train.jsonl": b'{"text": "new"}\n'})
    for streaming in (False, True):
        rows = list(read_hub_rows("owner/rows", RowReport(), revision=commit, streaming=streaming))
        assert [row.fields["text"] for row in rows] == [f"row {number}" for number in range(20)]


def test_no_more_rows_than_asked_for(full):
    report = RowReport()
    rows = list(read_hub_rows("owner/rows", report, streaming=True, max_rows=3))
    assert [row.where for row in rows] == [f"owner/rows[train] row {number}" for number in (1, 2, 3)] and report.rows == 3


@dataclass(frozen=True)
class Refused:
    """What is asked, the state of the Hub, and the whole answer; HUB stands for the server's address."""

    what: str
    ask: Callable[[], object]
    message: str
    faults: tuple = ()
    token: str | None = None
    offline: bool = False


def model(name: str, revision: str | None = None) -> Callable[[], object]:
    return lambda: download(name, revision)


def rows(name: str, **options: object) -> Callable[[], object]:
    return lambda: list(read_hub_rows(name, RowReport(), **options))


KEPT = "  what has come is kept: the same command again goes on from there"
NEVER = "nothing was started"
TABLE = [
    Refused("a model that is not there", model("owner/huge"), """\
the Hub has no model owner/huge that you can read
  model.repo=owner/huge
  if it is private, log in first:  hf auth login
  nothing was started"""),
    Refused("a private model without a token", model("owner/closed"), """\
the Hub has no model owner/closed that you can read
  model.repo=owner/closed
  if it is private, log in first:  hf auth login
  nothing was started"""),
    Refused("a name without an owner", model("tiny"), """\
the Hub has no model tiny that you can read
  model.repo=tiny
  names look like owner/name
  if it is private, log in first:  hf auth login
  nothing was started"""),
    Refused("a name that cannot be one", model("owner/a/b"), f"""\
'owner/a/b' is not the name of a repository
  model.repo
  {"names look like owner/name":<41}nothing was started"""),
    Refused("a revision that is not there", model("owner/tiny", "v9"), f"""\
{"owner/tiny has no revision v9":<43}model.repo=owner/tiny model.revision=v9
  a revision is a branch, a tag or a whole commit name
  nothing was started"""),
    Refused("a token that is not valid", model("owner/closed"), f"""\
{"the Hub does not accept the token":<43}model.repo=owner/closed
  it comes from HF_TOKEN where that is set, else from the last login
  try  hf auth login
  nothing was started""", token="hf_wrong"),
    Refused("a gated model without a token", model("owner/gated"), """\
owner/gated is gated: its owner lets people in
  model.repo=owner/gated
  ask for access on HUB/owner/gated, then log in
  try  hf auth login
  nothing was started"""),
    Refused("a gated model with a token", model("owner/gated"), """\
owner/gated is gated, and your token has no access yet
  model.repo=owner/gated
  ask for it on HUB/owner/gated
  nothing was started""", token="hf_right"),
    Refused("weights that are pickles", model("owner/pickled"), f"""\
{"owner/pickled has no safetensors":<43}model.repo=owner/pickled
  pickled weights (.bin, .pt) are never read: they can run code
  nothing was started"""),
    Refused("weights without a configuration", model("owner/bare"), f"""\
{"owner/bare has no config.json":<43}model.repo=owner/bare
  nothing was started"""),
    Refused("too many requests", model("owner/tiny"), f"""\
{"the Hub asks to wait: too many requests":<43}model.repo=owner/tiny
{KEPT}
  more are allowed with a token:  hf auth login
  nothing was started""", faults=("model.safetensors", *[(429, {"Retry-After": "2"})] * 9)),
    Refused("a Hub out of order", model("owner/tiny"), f"""\
{"the Hub is out of order (status 503)":<43}model.repo=owner/tiny
  asked: HUB
{KEPT}
  nothing was started""", faults=("/revision/main", *[503] * 9)),
    Refused("a file that the Hub cannot give", model("owner/tiny"), f"""\
{"the Hub is out of order (status 503)":<43}model.repo=owner/tiny
  asked: HUB
{KEPT}
  nothing was started""", faults=("model.safetensors", *[503] * 9)),
    Refused("a connection that breaks again and again", model("owner/tiny"), f"""\
the Hub cannot be reached, and owner/tiny is not (whole) in the cache
  model.repo=owner/tiny
  asked: HUB
{KEPT}
  nothing was started""", faults=("model.safetensors", *[cut_after(0)] * 9)),
    Refused("a model that the cache does not have, offline", model("owner/tiny"), """\
owner/tiny is not in the cache, and HF_HUB_OFFLINE forbids to fetch it
  model.repo=owner/tiny
  unset HF_HUB_OFFLINE to fetch it once
  try  model=local model.path=FOLDER
  nothing was started""", offline=True),
    Refused("a tokenizer that is not there", lambda: download("owner/bare", None, "tokenizer"), f"""\
{"owner/bare has no tokenizer.json":<43}tokenizer.repo=owner/bare
  nothing was started"""),
    Refused("a data set that is not there", lambda: commit_of("owner/row", None, "dataset"), """\
the Hub has no dataset owner/row that you can read
  data.repo=owner/row
  if it is private, log in first:  hf auth login
  nothing was started"""),
    Refused("a split that is not there", rows("owner/rows", split="trian"), f"""\
{"owner/rows has no split trian":<43}data.repo=owner/rows
  did you mean  data.split=train ?
  there is: train
  nothing was started"""),
    Refused("a subset that is not there", rows("owner/rows", subset="english"), f"""\
{"owner/rows has no subset english":<43}data.repo=owner/rows
  there is: default
  try  data.subset=default
  nothing was started"""),
    Refused("a data set of pictures", rows("owner/pictures"), """\
the data set owner/pictures holds imagefolder files, not rows of text
  data.repo=owner/pictures
  what is read: parquet, json, csv, text, arrow
  nothing was started"""),
    Refused("a data set that the cache does not have, offline", lambda: commit_of("owner/rows", None, "dataset"), """\
owner/rows is not in the cache, and HF_HUB_OFFLINE forbids to fetch it
  data.repo=owner/rows
  unset HF_HUB_OFFLINE to fetch it once
  try  data=files data.path=FILE
  nothing was started""", offline=True),
]


@pytest.mark.parametrize("row", TABLE, ids=[row.what for row in TABLE])
def test_refusals_are_told(full, monkeypatch, row):
    if row.faults:
        full.fail(*row.faults)
    if row.token:
        monkeypatch.setenv("HF_TOKEN", row.token)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", row.offline)
    with pytest.raises(UserError) as caught:
        row.ask()
    assert str(caught.value).replace(full.url, "HUB") == row.message


def test_near_name_is_one_that_was_fetched_before(full):
    download("owner/tiny")
    with pytest.raises(UserError, match=r"did you mean  model\.repo=owner/tiny \?"):
        download("owner/tinny")


def test_hub_that_is_no_hub_is_told(hub):
    hub.fail("/revision/main", (200, {"Content-Type": "text/html"}))
    with pytest.raises(UserError, match="does not answer like the Hub"):
        download("owner/tiny")
