"""Where the native code is built: what shares a target directory, and what must not."""

from __future__ import annotations

from pathlib import Path

import pytest

import native
from toolchain import ROOT, BuildSetupError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # `make test` runs the tests under the native environment itself.
    for name in ("CARGO_TARGET_DIR", "LIBCLANG_PATH", "LLMSERVE_CARGO_FEATURES", "RUSTFLAGS", "CXXFLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LLMSERVE_CACHE_DIR", str(tmp_path / "cache"))


def test_target_directory_lies_in_the_cache(tmp_path: Path) -> None:
    target = native.target_dir()
    assert target.parent == tmp_path / "cache" / "native"
    assert len(target.name) == 12
    assert target == native.target_dir()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RUSTFLAGS", "-C target-cpu=x86-64-v3"),
        ("CXXFLAGS", "-O2"),
        ("CMAKE_CXX_FLAGS", "-O2"),
        ("GGML_CPU_REPACK", "OFF"),
    ],
)
def test_a_flag_that_changes_the_code_has_a_directory_of_its_own(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    before = native.target_dir()
    monkeypatch.setenv(name, value)
    assert native.target_dir() != before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VIRTUAL_ENV", "/elsewhere"),
        ("CMAKE_BUILD_PARALLEL_LEVEL", "2"),
        ("CMAKE_GENERATOR", "Ninja"),
        ("PYTHONPATH", "/elsewhere"),
        ("CXXFLAGS", ""),
    ],
)
def test_other_variables_share_the_build(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    before = native.target_dir()
    monkeypatch.setenv(name, value)
    assert native.target_dir() == before


def test_another_cpu_has_a_directory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = native.target_dir()
    monkeypatch.setattr(native, "_cpu_identity", lambda: "model name: another CPU")
    assert native.target_dir() != before


def test_features_have_directories_of_their_own() -> None:
    directories = {native.target_dir(f) for f in [(), ("cuda",), ("vulkan",), ("cuda", "vulkan")]}
    assert len(directories) == 4


def test_a_configured_target_directory_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "mine"))
    assert native.target_dir() == tmp_path / "mine"


def test_features_are_sorted_and_named_once() -> None:
    assert native.requested_features("vulkan, cuda cuda") == ("cuda", "vulkan")
    assert native.requested_features("") == ()


def test_features_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMSERVE_CARGO_FEATURES", "cuda")
    assert native.requested_features() == ("cuda",)


def test_an_unknown_feature_is_refused_by_name() -> None:
    with pytest.raises(BuildSetupError) as caught:
        native.requested_features("cuda,rocket")
    assert str(caught.value) == (
        "unknown cargo feature `rocket`.\nhint: the features are `cuda`, `metal`, `vulkan`"
    )


def test_environment_names_stable_tools_and_one_python_abi(tmp_path: Path) -> None:
    env = native.native_environment()
    cache = tmp_path / "cache"
    assert env["CARGO_TARGET_DIR"] == str(native.target_dir())
    assert Path(env["PYO3_CONFIG_FILE"]).read_text().splitlines() == [
        "implementation=CPython",
        "version=3.11",
        "target_abi=CPython-abi3-3.11",
        "shared=true",
    ]
    assert env["CMAKE_GENERATOR"] == "Ninja"
    folders = env["PATH"].split(":")
    assert folders[:2] == [str(cache / "build-tools/cmake/bin"), str(cache / "build-tools/ninja")]
    assert env["LIBCLANG_PATH"] == str(cache / "build-tools/libclang")
    assert env == native.native_environment()


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("LLMSERVE_CACHE_DIR", str(blocked))
    with pytest.raises(BuildSetupError) as caught:
        native.native_environment()
    assert str(caught.value).startswith(
        f"cannot write to `{blocked}`: Not a directory.\nhint: set `LLMSERVE_"
    )


def test_known_features_are_those_of_the_binding_crate() -> None:
    manifest = (ROOT / "crates" / "llmserve-python" / "Cargo.toml").read_text()
    for feature in native.KNOWN_FEATURES:
        assert f'{feature} = ["llmserve-engine/{feature}"]' in manifest
