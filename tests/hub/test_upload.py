"""Packages on the Hub: one commit, private, what is refused and when; against a server of the Hub's protocol."""
from __future__ import annotations

import pytest

from hierarchos.errors import UserError
from hierarchos.hub.download import download
from hierarchos.hub.upload import check_can_upload, upload
from tests.hub.server import HubServer

FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 40, "README.md": b"---\nlicense: mit\n---\n"}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "package"
    made.mkdir()
    for name, content in FILES.items():
        (made / name).write_bytes(content)
    return made


@pytest.fixture
def allowed(hub: HubServer, monkeypatch) -> HubServer:
    """A Hub that the token opens, and a client without the storage protocol that this server does not speak."""
    monkeypatch.setenv("HF_TOKEN", hub.token)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    return hub


def test_new_repository_is_private_and_has_all_files_in_one_commit(allowed, folder):
    made = upload(folder, "owner/new")
    repository = allowed.repositories["models", "owner/new"]
    assert repository.private and repository.refs["main"] == made.commit and len(repository.commits) == 2
    assert {name: content for name, content in repository.commits[made.commit].items() if name in FILES} == FILES
    assert made.address == f"{allowed.url}/owner/new/tree/main"
    assert (download("owner/new") / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_repository_that_is_there_keeps_its_other_files_and_main_where_a_branch_is_named(allowed, folder):
    before = allowed.add("models", "owner/old", {"notes.md": b"x"})
    main = before.refs["main"]
    made = upload(folder, "owner/old", branch="next")
    assert before.refs == {"main": main, "next": made.commit} and not before.private
    assert set(before.commits[made.commit]) == {"notes.md", *FILES}


@pytest.mark.parametrize(("name", "told"), [("other/new", "the token may not write to other/new"),
                                            ("other/old", "the token may not write to other/old")])
def test_places_of_others_are_refused(allowed, folder, name, told):
    allowed.add("models", "other/old", {})
    with pytest.raises(UserError, match=told):
        upload(folder, name)


def test_wrong_token_and_faults_are_told(allowed, folder, monkeypatch):
    allowed.fail("/commit/main", 503, 503, 503, 503, 503, 503, 503, 503)
    with pytest.raises(UserError, match="the Hub is out of order"):
        upload(folder, "owner/new")
    assert list(allowed.repositories["models", "owner/new"].commits.values()) == [{}]
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(UserError, match="the Hub does not accept the token"):
        upload(folder, "owner/other")


def test_what_can_be_known_is_refused_without_asking(hub, monkeypatch):
    with pytest.raises(UserError, match="uploading needs a token that may write"):
        check_can_upload("owner/new")
    for name in ("new", "a b/c"):
        with pytest.raises(UserError, match="is not the name of a repository"):
            check_can_upload(name)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE forbids to upload"):
        check_can_upload("owner/new")
    assert hub.requests == []
