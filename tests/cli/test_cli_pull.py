"""`llmserve pull` against a stand-in of the Hub's HTTP API, which also breaks off, redirects and changes."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmserve.cli import main
from llmserve.cli.commands import serve
from llmserve.cli.model_names import known_models
from llmserve.server.download import PullError, transfer
from llmserve.server.download.sources import files_of
from llmserve.server.download.transfer import RemoteFile, fetch
from llmserve.server.settings import parse_settings
from serving.hub_site import CONTENT, REPOSITORY, Site, hub_site

SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with hub_site() as made:
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(transfer, "_PAUSE_S", 0)
        yield made


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMSERVE_CACHE_DIR", str(tmp_path))
    return tmp_path / "models"


def left_over(models: Path) -> list[str]:
    return sorted(path.name for path in models.iterdir() if path.name not in (".pull.lock", "org"))


def quiet(share: float) -> None:
    assert 0 <= share <= 1


def test_a_quantization_of_a_repository(site: Site, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.add_repository("Tiny-Q4_K_M.gguf", "Tiny-Q4_K_S.gguf", "mmproj-Tiny-Q4_K_M.gguf", "README.md")
    assert main(["pull", f"hf:{REPOSITORY}:q4_k_s"]) == 0
    out, err = capsys.readouterr()
    path = models / "org" / "Tiny-Q4_K_S.gguf"
    assert out == f"{path}\n"
    assert "download org/Tiny-Q4_K_S.gguf: 100 %" in err
    assert path.read_bytes() == CONTENT
    assert left_over(models) == []
    assert known_models(parse_settings(os.environ)) == {"org/Tiny-Q4_K_S": path}
    # It is there: only the listing is asked for.
    site.seen.clear()
    assert main(["pull", f"hf:{REPOSITORY}:Tiny-Q4_K_S.gguf"]) == 0
    assert [path for _, path, _ in site.seen] == [f"/api/models/{REPOSITORY}/revision/main?blobs=true"]


def test_a_repository_is_served(site: Site, models: Path) -> None:
    site.add_repository("Tiny-Q4_K_M.gguf", "Tiny-Q8_0.gguf")
    settings = parse_settings(os.environ)
    assert serve._model(settings, None, f"{REPOSITORY}:Q8_0") == str(models / "org" / "Tiny-Q8_0.gguf")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["only.gguf"], "only.gguf"),
        (["a-Q8_0.gguf", "a-Q4_K_M.gguf", "a-Q4_0.gguf"], "a-Q4_K_M.gguf"),
        (["a-f16.gguf", "a-Q8_0.gguf"], "a-Q8_0.gguf"),
        (["sub/a-Q4_0.gguf", "b-Q2_K.gguf"], "sub/a-Q4_0.gguf"),
    ],
)
def test_what_is_taken_if_nothing_is_named(site: Site, paths: list[str], expected: str) -> None:
    site.add_repository(*paths)
    (file,) = files_of(f"hf:{REPOSITORY}")
    assert file.url == f"{site.url}/{REPOSITORY}/resolve/c0ffee/{expected}"
    assert file.name == f"org/{Path(expected).name}"


def test_all_parts_of_a_split_model(site: Site, models: Path) -> None:
    parts = [f"Q4_0/a-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    site.add_repository(*parts)
    assert main(["pull", f"hf:{REPOSITORY}:Q4_0"]) == 0
    assert sorted(path.name for path in (models / "org").iterdir()) == [Path(part).name for part in parts]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (f"hf:{REPOSITORY}", r"has several models: a-Q2_K\.gguf, a-Q3_K\.gguf\nhint: name one: hf:org/Tiny"),
        (f"hf:{REPOSITORY}:Q9", r"has no file Q9\nhint: there are a-Q2_K\.gguf"),
        ("hf:org/none", r"answers 404 .*\nhint: check the name; a private repository needs HF_TOKEN"),
        ("hf:nothing", "'nothing' is not the name of a repository"),
        ("hf:../../etc:x", "is not the name of a repository"),
        ("org/Tiny", "does not say where to download a model\nhint: a model of Hugging Face: hf:org/Tiny"),
        ("llama3.2", "hint: hf:ORG/REPO or a URL"),
        ("https://example.com/", "is not the URL of a file NAME.gguf"),
    ],
    ids=range(8),
)
def test_what_is_not_found_is_said_with_a_hint(
    site: Site, models: Path, capsys: pytest.CaptureFixture[str], what: str, message: str
) -> None:
    site.add_repository("a-Q2_K.gguf", "a-Q3_K.gguf")
    assert main(["pull", what]) == 1
    with pytest.raises(PullError, match=message) as raised:
        files_of(what)
    assert capsys.readouterr().err == f"llmserve: {raised.value}\n"
    assert not models.exists() or left_over(models) == []


def test_a_missing_part_is_noticed_before_anything_is_downloaded(site: Site) -> None:
    site.add_repository("a-00001-of-00002.gguf")
    with pytest.raises(PullError, match=r"lacks a part of the model: a-00002-of-00002\.gguf"):
        files_of(f"hf:{REPOSITORY}")


def test_a_transfer_goes_on_where_it_broke_off(site: Site, models: Path) -> None:
    site.files["/a.gguf"] = CONTENT
    site.break_after = [100_000, 50_000]
    path = fetch(RemoteFile(f"{site.url}/a.gguf", "a.gguf"), models, quiet)
    assert path.read_bytes() == CONTENT
    assert site.ranges() == [None, "bytes=100000-", "bytes=150000-"]
    assert left_over(models) == ["a.gguf"]


def test_a_later_command_goes_on_and_a_half_file_is_never_listed(
    site: Site, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_MAX_FAILURES", 1)
    site.files["/a.gguf"] = CONTENT
    site.break_after = [100_000, 0]
    file = RemoteFile(f"{site.url}/a.gguf", "a.gguf")
    with pytest.raises(PullError, match=r"broke off: .*\nhint: the same command goes on where it ended"):
        fetch(file, models, quiet)
    assert known_models(parse_settings(os.environ)) == {}
    assert not list(models.glob("*.gguf"))
    site.seen.clear()
    shares: list[float] = []
    assert fetch(file, models, shares.append).read_bytes() == CONTENT
    assert site.ranges() == ["bytes=100000-"]
    assert min(shares) > 0.3


def test_a_file_that_has_changed_is_fetched_from_its_beginning(
    site: Site, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_MAX_FAILURES", 1)
    site.files["/a.gguf"] = b"GGUF" + bytes(200_000)
    site.break_after = [100_000, 0]
    file = RemoteFile(f"{site.url}/a.gguf", "a.gguf")
    with pytest.raises(PullError):
        fetch(file, models, quiet)
    site.files["/a.gguf"] = CONTENT
    assert fetch(file, models, quiet).read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_dropped(site: Site, models: Path) -> None:
    site.files["/a.gguf"] = CONTENT
    file = RemoteFile(f"{site.url}/a.gguf", "a.gguf")
    models.mkdir()
    partial = transfer._Transfer(file, models, quiet)._partial
    partial.write_bytes(CONTENT + b"more")
    partial.with_name(f"{partial.name}.etag").write_text(f'"{SHA256[:8]}"')
    assert fetch(file, models, quiet).read_bytes() == CONTENT


@pytest.mark.parametrize("how", ["option", "hub", "repr-digest", "artifactory"])
def test_a_wrong_sha256_leaves_nothing_behind(
    site: Site, models: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    site.files["/a.gguf"] = CONTENT
    arguments = ["pull", f"{site.url}/a.gguf"]
    if how == "option":
        arguments += ["--sha256", "0" * 64]
    elif how == "hub":
        site.add_repository("a.gguf", sha256="0" * 64)
        arguments = ["pull", f"hf:{REPOSITORY}"]
    elif how == "repr-digest":
        site.headers["Repr-Digest"] = f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"
    else:
        site.headers["X-Checksum-Sha256"] = "0" * 64
    assert main(arguments) == 1
    assert f"has the SHA-256 {SHA256}, expected {'0' * 64}" in capsys.readouterr().err
    assert left_over(models) == []


def test_the_right_sha256_is_accepted_in_any_case(site: Site, models: Path) -> None:
    site.files["/a.gguf"] = CONTENT
    assert main(["pull", f"{site.url}/a.gguf", "--sha256", SHA256.upper()]) == 0
    assert main(["pull", f"{site.url}/a.gguf", "--sha256", "12"]) == 1


def test_a_page_about_a_file_is_not_the_file(site: Site, models: Path) -> None:
    site.files["/a.gguf"] = b"<!doctype html>"
    with pytest.raises(PullError, match="is not a GGUF file\nhint: it may be a page about the file"):
        fetch(RemoteFile(f"{site.url}/a.gguf", "a.gguf"), models, quiet)
    assert left_over(models) == []


def test_a_file_of_another_size_at_the_url_replaces_the_one_that_is_there(site: Site, models: Path) -> None:
    models.mkdir()
    (models / "a.gguf").write_bytes(b"GGUF old")
    site.files["/a.gguf"] = CONTENT
    file = RemoteFile(f"{site.url}/a.gguf", "a.gguf")
    assert fetch(file, models, quiet).read_bytes() == CONTENT
    site.seen.clear()
    fetch(file, models, quiet)
    assert [method for method, _, _ in site.seen] == ["HEAD"]


def test_the_token_stays_with_the_hub(site: Site, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    site.add_repository("a.gguf")
    resolved = f"/{REPOSITORY}/resolve/c0ffee/a.gguf"
    site.files["/elsewhere"] = site.files.pop(resolved)
    site.redirects[resolved] = f"{site.url}/elsewhere"
    assert main(["pull", f"hf:{REPOSITORY}"]) == 0
    sent = {path.partition("?")[0]: headers.get("Authorization") for _, path, headers in site.seen}
    assert sent[resolved] == "Bearer hf_secret"
    assert sent["/elsewhere"] is None


@pytest.mark.parametrize(
    ("status", "hint"), [(401, "set HF_TOKEN"), (403, "accept the model's terms"), (404, "check the name")]
)
def test_refusals_of_the_server(site: Site, models: Path, status: int, hint: str) -> None:
    site.statuses["/a.gguf"] = status
    with pytest.raises(PullError, match=rf"the server answers {status} .*\nhint: .*{hint}"):
        fetch(RemoteFile(f"{site.url}/a.gguf", "a.gguf"), models, quiet)


def test_no_connection(models: Path, site: Site) -> None:
    with pytest.raises(PullError, match=r"cannot be downloaded: .*\nhint: check the connection"):
        fetch(RemoteFile("http://127.0.0.1:9/a.gguf", "a.gguf"), models, quiet)


def test_too_little_space_is_noticed_before_the_download(
    site: Site, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        free = 1000

    monkeypatch.setattr("shutil.disk_usage", lambda folder: Full)
    site.files["/a.gguf"] = CONTENT
    with pytest.raises(PullError, match=r"needs 0\.00 GB, and .* has 0\.00 GB left"):
        fetch(RemoteFile(f"{site.url}/a.gguf", "a.gguf"), models, quiet)
    assert not (models / "a.gguf").exists()


def test_a_cache_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(PullError, match=r"cannot write to .*\nhint: LLMSERVE_CACHE_DIR"):
        fetch(RemoteFile(f"{site.url}/a.gguf", "a.gguf"), tmp_path / "models", quiet)
