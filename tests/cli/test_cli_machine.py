"""`bench`, `devices` and `completion`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from llmserve.cli import commands, main
from llmserve.cli.commands.devices import _available, _processor

pytestmark = pytest.mark.usefixtures("cache")


def test_a_table_and_json_of_speeds(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", str(tiny_model), "-p", "20", "-n", "4", "-r", "1", "--streams", "1,3", "-t", "1"]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "1 threads, prompts of 20 tokens, answers of 4" in lines[0]
    assert lines[1].split("  ")[0] == "STREAMS"
    assert [line.split()[0] for line in lines[2:]] == ["1", "3"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["prompt_tokens"], found["answer_tokens"]) == ("llama", 20, 4)
    assert [result["streams"] for result in found["results"]] == [1, 3]
    assert all(
        value > 0 for result in found["results"] for key, value in result.items() if "deviation" not in key
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--streams", "0"], "--streams must be numbers from 1 to 256, got '0'"),
        (["--streams", "a"], "--streams must be numbers"),
        (["-p", "0"], "--prompt-tokens must be at least 1"),
        (["-r", "0"], "--repetitions must be at least 1"),
    ],
)
def test_what_cannot_be_measured(
    tiny_model: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["bench", str(tiny_model), *options]) == 2
    assert message in capsys.readouterr().err


def test_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 1 <= found["usable_cores"] <= found["cores"]
    assert found["available_bytes"] < found["memory_bytes"] + 1
    devices = [device for backend in found["backends"] for device in backend["devices"]]
    [cpu] = [device for device in devices if device["kind"] == "cpu"]
    assert 0 < cpu["free_bytes"] <= cpu["total_bytes"]
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == "processor"
    assert "CPU" in [line.split()[0] for line in lines[lines.index("") + 2 :]]


def test_backends_without_a_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = {"name": "CUDA0", "description": "A Chip", "kind": "integrated_gpu"}
    backends = [
        {"name": "CUDA", "module": None, "failure": None, "devices": []},
        {"name": "VULKAN", "module": "libggml-vulkan.so", "failure": "no libvulkan.so.1", "devices": []},
        {
            "name": "CUDA",
            "module": "libggml-cuda.so",
            "failure": None,
            "devices": [{**gpu, "total_bytes": 8 << 30, "free_bytes": 4 << 30}],
        },
    ]
    monkeypatch.setattr("llmserve._core.backends", lambda: backends)
    assert main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()[-3:]
    assert [re.split(" {2,}", line) for line in lines] == [
        ["CUDA", "no device", "built in"],
        ["VULKAN", "no libvulkan.so.1", "libggml-vulkan.so"],
        ["CUDA", "CUDA0: A Chip", "integrated gpu", "8.0 GiB", "4.0 GiB", "libggml-cuda.so"],
    ]


def test_a_processor_by_its_description() -> None:
    text = "processor: 0\nmodel name\t: A Chip\nflags\t\t: fpu avx2 avx512f\n\nprocessor: 1\nmodel name: B\n"
    assert _processor(text) == ("A Chip", frozenset({"fpu", "avx2", "avx512f"}))
    assert _processor("Features : asimd i8mm\n") == ("", frozenset({"asimd", "i8mm"}))
    assert _processor("") == ("", frozenset())
    assert _available("MemTotal: 9 kB\nMemAvailable:    2 kB\n") == 2048
    assert _available("") is None


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of all shells."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            ["python", "-m", "llmserve", "completion", shell], capture_output=True, text=True, check=True
        )
        (folder / shell).write_text(done.stdout)
    return folder


def completed(scripts: Path, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("llmserve", *words))
    program = (
        f"source {scripts / 'bash'}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _llmserve; "
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_choices_and_files(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    (tmp_path / "notes.txt").touch()
    assert completed(scripts, tmp_path, "") == [*commands.NAMES, "--help", "--version", "model.gguf"]
    assert completed(scripts, tmp_path, "be") == ["bench"]
    assert completed(scripts, tmp_path, "serve", "--grpc-") == ["--grpc-port", "--grpc-host"]
    assert completed(scripts, tmp_path, "serve", "--kv-layout", "") == ["auto", "per_sequence", "unified"]
    assert completed(scripts, tmp_path, "completion", "") == ["bash", "fish", "zsh"]
    assert completed(scripts, tmp_path, "show", "mo") == ["model.gguf"]
    assert completed(scripts, tmp_path, "chat", "--tem") == ["--temperature", "--temp"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_one_of_its_shell(scripts: Path, shell: str) -> None:
    text = (scripts / shell).read_text()
    for name in commands.NAMES:
        assert name in text
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run(
        [program, "-n", str(scripts / shell)], check=True, env={**os.environ, "HOME": str(scripts)}
    )
