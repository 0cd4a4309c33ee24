"""`run` and `chat`, with a generated model in this process and on a server."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from llmserve import SyncEngine
from llmserve.cli import main
from llmserve.cli.errors import CommandError
from llmserve.cli.talk.chat import Chat
from llmserve.cli.talk.conversation import Conversation
from llmserve.cli.talk.talker import Message, Reply, Show
from serving import Server, serve_in_process

pytestmark = pytest.mark.usefixtures("cache")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Scripted:
    """Answers with what it was asked, in two pieces; may be interrupted, or fail, in between."""

    name = "scripted"

    def __init__(self, fault: BaseException | None = None) -> None:
        self.fault = fault
        self.seen: list[tuple[list[Message], dict[str, Any]]] = []

    def reply(self, messages: Sequence[Message], sampling: Mapping[str, Any], show: Show) -> Reply:
        self.seen.append((list(messages), dict(sampling)))
        show("you said ")
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        show(messages[-1]["content"])
        return Reply(text="", finish_reason="stop", prompt_tokens=1, completion_tokens=1)

    def complete(self, prompt: str, sampling: Mapping[str, Any], show: Show) -> Reply:
        raise NotImplementedError

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def nothing_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


Typed = Callable[..., tuple[Scripted, str, str]]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Chats with what is typed; gives the model, the output and the errors."""

    def chat(*lines: str, fault: BaseException | None = None, system: str = "") -> tuple[Scripted, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        talker = Scripted(fault)
        Chat(talker, Conversation(system), {}).run()
        out, err = capsys.readouterr()
        return talker, out, err

    return chat


def roles(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


def test_run_prints_the_answer(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Is it late?"}]
    with SyncEngine.load(tiny_model, max_sequences=1) as engine:
        expected = engine.chat(messages, max_tokens=12, temperature=0)
    options = ["-n", "12", "--temperature", "0", "--system", "Be kind."]
    assert main(["run", str(tiny_model), *options, "Is it late?"]) == 0
    assert capsys.readouterr().out == f"{expected.text}\n"
    assert main(["run", str(tiny_model), "Is it late?", *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "model": "llama",
        "text": expected.text,
        "finish_reason": expected.finish_reason,
        "prompt_tokens": expected.usage.prompt_tokens,
        "completion_tokens": expected.usage.completion_tokens,
    }


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_prompt_may_come_from_standard_input(
    tiny_model: Path,
    tiny_server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_remote: bool,
) -> None:
    with SyncEngine.load(tiny_model, max_sequences=1) as engine:
        expected = engine.generate("Sum up\n\nA text.", max_tokens=9, temperature=0)
    monkeypatch.setattr("sys.stdin", io.StringIO("A text.\n"))
    where = ["llama", "--url", f"http://127.0.0.1:{tiny_server.port}"] if is_remote else [str(tiny_model)]
    assert main(["run", *where, "--raw", "-n", "9", "--temp", "0", "Sum up"]) == 0
    assert capsys.readouterr().out == f"{expected.text}\n"


def test_a_server_answers_as_this_process_does(
    tiny_server: Server, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-n", "12", "--temperature", "0", "--json", "Is it late?"]
    assert main(["run", str(tiny_model), *options]) == 0
    here = json.loads(capsys.readouterr().out)
    url = f"http://127.0.0.1:{tiny_server.port}/v1"
    assert main(["run", "llama", "--url", url, *options]) == 0
    assert json.loads(capsys.readouterr().out) == here


def test_the_key_of_a_server(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve_in_process(tmp_path, tiny_model, env={"LLMSERVE_API_KEY": "secret"}) as server:
        command = ["run", "llama", "hi", "-n", "1", "--url", f"http://127.0.0.1:{server.port}"]
        assert main(command) == 1
        assert "hint: give the server's key with --api-key or LLMSERVE_API_KEY" in capsys.readouterr().err
        assert main([*command, "--api-key", "secret"]) == 0
        monkeypatch.setenv("LLMSERVE_API_KEY", "secret")
        assert main(command) == 0


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["run", "MODEL", "hi", "--temperature", "-1"], 2, "--temperature must be a number of at least 0"),
        (["run", "MODEL", "hi", "--top-k", "many"], 2, "invalid int value: 'many'"),
        (["run", "MODEL", ""], 2, "the prompt is empty"),
        (["run", "MODEL", "hi", "--raw", "--system", "x"], 2, "there is no --system"),
        (["run", "missing", "hi"], 1, "there is no model missing"),
        (["run", "MODEL", "hi", "--api-key", "x"], 2, "--api-key is for a server, which --url names"),
        (["run", "MODEL", "hi", "--url", "localhost"], 2, "--url must be the address of a server"),
        (["run", "x", "hi", "--url", "http://127.0.0.1:9"], 1, "no answer from http://127.0.0.1:9"),
        (
            ["run", "x", "hi", "--url", "http://127.0.0.1:9", "-c", "9"],
            2,
            "--context-length is for models in",
        ),
        (["run", "EMBEDDER", "hi"], 1, "bert-mean.gguf"),
    ],
)
def test_wrong_use_is_one_line(
    tiny_models: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    status: int,
    message: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    paths = {"MODEL": tiny_models / "llama.gguf", "EMBEDDER": tiny_models / "bert-mean.gguf"}
    assert main([str(paths.get(word, word)) for word in words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    first, *more = err.splitlines()
    assert first.startswith("llmserve: ")
    assert message in first
    assert all(line.startswith("hint: ") for line in more)


def test_an_unknown_model_of_a_server(tiny_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "other", "hi", "--url", f"http://127.0.0.1:{tiny_server.port}"]) == 1
    assert "llmserve: the server refuses: unknown model 'other'" in capsys.readouterr().err


def test_without_a_prompt_a_terminal_gets_a_chat(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda prompt: "/quit")
    assert main(["run", str(tiny_model)]) == 0
    assert "/help lists commands" in capsys.readouterr().out


def test_a_chat_over_a_pipe(
    tiny_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n/regenerate\n"))
    url = f"http://127.0.0.1:{tiny_server.port}"
    assert main(["chat", "--url", url, "--temperature", "0", "-n", "6"]) == 0
    first, second = capsys.readouterr().out.split(" (length)\n")[:2]
    assert first == second != ""


def test_a_conversation_goes_on(typed: Typed) -> None:
    talker, out, _ = typed("one", "", "two", system="Be kind.")
    assert out == "you said one\nyou said two\n"
    assert roles(talker.seen[1][0]) == [
        ("system", "Be kind."),
        ("user", "one"),
        ("assistant", "you said one"),
        ("user", "two"),
    ]


def test_texts_of_several_lines(typed: Typed) -> None:
    talker, _, _ = typed('"""first', "", 'second"""', "one \\", "two", '"""whole"""', '"""cut')
    assert [messages[-1]["content"] for messages, _ in talker.seen] == [
        "first\n\nsecond",
        "one \ntwo",
        "whole",
    ]


def test_an_answer_is_made_again(typed: Typed) -> None:
    talker, _, err = typed("/regenerate", "one", "/regenerate")
    assert "there is no answer yet" in err
    assert talker.seen[0] == talker.seen[1]


def test_the_system_prompt_and_a_new_beginning(typed: Typed) -> None:
    talker, out, _ = typed("/system", "/system Be brief.", "/system", "one", "/clear", "two")
    assert out.splitlines()[:2] == ["(no system prompt)", "Be brief."]
    assert roles(talker.seen[1][0]) == [("system", "Be brief."), ("user", "two")]


def test_sampling_parameters(typed: Typed) -> None:
    talker, out, err = typed(
        "/set temperature 0.5", "/set top-k 3", "/set", "one", "/set temperature", "two", "/set", "/set x 1",
        "/set top_k many", "/set top_p 7",
    )  # fmt: skip
    assert [sampling for _, sampling in talker.seen] == [{"temperature": 0.5, "top_k": 3}, {"top_k": 3}]
    assert "temperature 0.5, top_k 3\n" in out
    assert "there is no parameter x\n" in err
    assert "top_k must be a whole number, got 'many'" in err
    assert "top_p" in err.splitlines()[-1]


def test_a_conversation_is_saved_and_loaded(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "saved chat.json"
    typed("one", f"/save {path}", system="Be kind.")
    assert json.loads(path.read_text())["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "you said one"},
    ]
    talker, out, _ = typed(f"/load {path}", "two")
    assert "2 messages" in out
    assert len(talker.seen[0][0]) == 4
    _, _, err = typed("/load", f"/load {tmp_path}/none", f"/save {tmp_path}/none/x")
    assert "/load needs the name of a file" in err
    assert "none cannot be read: No such file" in err
    assert "x cannot be written" in err


@pytest.mark.parametrize(
    "content", ["", "[]", '{"messages": [1]}', '{"messages": [{"role": "tool", "content": "x"}]}']
)
def test_a_file_that_is_no_conversation_changes_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    conversation = Conversation("Be kind.")
    conversation.ask("one")
    with pytest.raises(CommandError, match=r"a\.json (is not a saved conversation|has messages of others)"):
        conversation.load(path)
    assert len(conversation.messages) == 2


def test_ctrl_c_stops_the_answer_and_not_the_program(typed: Typed) -> None:
    talker, out, _ = typed("one", "two", fault=KeyboardInterrupt())
    assert out == "you said  (stopped)\nyou said two\n"
    assert roles(talker.seen[1][0])[1] == ("assistant", "you said ")


def test_a_fault_ends_the_answer_and_not_the_program(typed: Typed) -> None:
    talker, out, err = typed("one", "two", fault=CommandError("the server failed", "wait"))
    assert err == "the server failed\nhint: wait\n"
    assert out.endswith("you said two\n")
    assert len(talker.seen) == 2


def test_commands_of_the_chat(typed: Typed) -> None:
    _, out, err = typed("/help", "/regenrate", "/quit", "never asked")
    assert "/regenerate" in out
    assert err == "there is no command /regenrate\nhint: did you mean /regenerate?\n"
    assert "never" not in out


def test_ctrl_c_at_the_prompt_clears_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs: Iterator[str | BaseException] = iter([KeyboardInterrupt(), "one", EOFError()])

    def read(prompt: str) -> str:
        given = next(inputs)
        if isinstance(given, BaseException):
            raise given
        return given

    monkeypatch.setattr("builtins.input", read)
    talker = Scripted()
    Chat(talker, Conversation(), {}).run()
    assert len(talker.seen) == 1
    assert "(/quit or Ctrl-D ends)" in capsys.readouterr().out
