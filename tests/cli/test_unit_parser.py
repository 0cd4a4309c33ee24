"""What a command line means, and how a wrong one is answered."""

from __future__ import annotations

import pytest

from llmserve.cli import commands, main
from llmserve.cli.errors import UsageError
from llmserve.cli.parser import parse, with_command
from llmserve.server.settings import VARIABLES


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["x.gguf"], ["serve", "x.gguf"]),
        (["folder/X.GGUF", "--port", "1"], ["serve", "folder/X.GGUF", "--port", "1"]),
        (["-m", "x.gguf"], ["serve", "-m", "x.gguf"]),
        (["--port", "1"], ["serve", "--port", "1"]),
        (["serve", "x"], ["serve", "x"]),
        (["help"], ["--help"]),
        (["help", "serve"], ["serve", "--help"]),
        (["version"], ["--version"]),
        (["--version"], ["--version"]),
        (["smollm2"], ["smollm2"]),
        # Folders are refused with a reason, which needs the command.
        (["/"], ["serve", "/"]),
        ([], []),
    ],
)
def test_the_command_may_be_left_out(words: list[str], meant: list[str]) -> None:
    assert with_command(words) == meant


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["-m", "x"], "model", "x"),
        (["--model=x"], "model", "x"),
        (["-c", "4096", "x.gguf"], "context_length", "4096"),
        (["-c8k"], "context_length", "8k"),
        (["--ctx-size", "1"], "context_length", "1"),
        (["-t", "2"], "threads", "2"),
        (["-np", "3"], "max_sequences", "3"),
        (["--parallel", "3"], "max_sequences", "3"),
        (["-ngl", "99"], "gpu_layers", "99"),
        (["--n-gpu-layers", "99"], "gpu_layers", "99"),
        (["-b", "4"], "batch_size", "4"),
        (["-ub", "4"], "ubatch_size", "4"),
        (["-hf", "org/name"], "hf_repo", "org/name"),
        (["-fa"], "flash_attention", "true"),
        (["-fa", "off", "x.gguf"], "flash_attention", "off"),
        (["-ctk", "q8_0"], "kv_type_k", "q8_0"),
        (["--host", "a"], "host", "a"),
        (["--host", "a", "--host=b,c"], "host", "a,b,c"),
        (["--alias", "a"], "served_model_name", "a"),
        (["--no-use-mmap"], "use_mmap", False),
    ],
)
def test_options_have_the_names_that_fingers_know(words: list[str], name: str, value: object) -> None:
    arguments = parse(["serve", *words])
    assert getattr(arguments, name) == value
    assert arguments.path == ("x.gguf" if "x.gguf" in words else None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["srve"], "unknown command 'srve'\nhint: did you mean serve?"),
        (["zzz"], "unknown command 'zzz'\nhint: see llmserve --help"),
        (["serve", "--prt", "1"], "unknown option --prt\nhint: did you mean --port?"),
        (["serve", "--ctx=1"], "unknown option --ctx\nhint: did you mean --ctx-size?"),
        (["--hots", "a"], "unknown option --hots\nhint: did you mean --host?"),
        (["serve", "a", "b"], "unexpected argument 'b'\nhint: see llmserve serve --help"),
        (["serve", "--port"], "argument --port: expected one argument\nhint: see llmserve serve --help"),
        (["pull", "--jsn"], "unknown option --jsn"),
    ],
)
def test_what_is_mistyped_is_named(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert str(caught.value).startswith(message)


def test_an_option_is_not_shortened() -> None:
    with pytest.raises(UsageError, match="unknown option --api"):
        parse(["serve", "--api", "key"])


def test_errors_are_lines_and_an_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--prt", "1"]) == 2
    assert main(["serve", "-m", "a", "b"]) == 2
    assert main(["serve", "-hf", "org/name", "-m", "b"]) == 2
    assert main(["inspect", "/nowhere"]) == 1
    assert capsys.readouterr().err == (
        "llmserve: unknown option --prt\nhint: did you mean --port?\n"
        "llmserve: the model is given twice: b and --model a\n"
        "llmserve: the model is given twice: --model b and -hf org/name\n"
        "llmserve: /nowhere: there is no such session file\n"
    )


def test_without_a_command_the_help_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for name in commands.NAMES:
        assert f"\n    {name} " in text
        assert commands.load(name).HELP in " ".join(text.split())


def test_the_help_of_serve_has_groups_and_names_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    text = capsys.readouterr().out
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[1:] == [
        "model",
        "memory and context",
        "computing",
        "context extension (RoPE)",
        "sampling",
        "speculative decoding",
        "server",
        "security",
        "limits",
        "gRPC",
        "logging",
    ]
    assert "docs/" not in text
    for variable in VARIABLES:
        for option in variable.options:
            assert option in text
