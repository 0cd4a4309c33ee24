"""Embedding models over HTTP: `/v1/embeddings` with the `openai` client, the catalogue, other dialects."""

from __future__ import annotations

import array
import base64
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openai
import pytest

from bert_reference import Bert, word_pieces
from serving import (
    Answer,
    Llamatik,
    RawStream,
    Server,
    free_port,
    get,
    post,
    read_metrics,
    serve,
    serve_folder,
    wait_until,
)
from serving.grpc_client import connect, failure
from synthetic import main_file
from synthetic.embedding_models import CONTEXT, WIDTH
from vectors import TOLERANCE

TEXTS = ["The sea is deep and green.", "trees, seas!", "the café"]
LONG = " ".join(["sea"] * (CONTEXT - 1))


@pytest.fixture(scope="module")
def folder(tiny_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    shutil.copy(tiny_models / "bert-mean.gguf", folder / "Org__Bert.gguf")
    shutil.copy(tiny_models / "embed-last.gguf", folder / "last.gguf")
    shutil.copy(tiny_models / main_file("llama"), folder / "llama.gguf")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_folder(tmp_path_factory.mktemp("server"), folder) as running:
        yield running
        assert "Traceback" not in running.log


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    url = f"http://127.0.0.1:{server.port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120) as client:
        yield client


def embed(server: Server, **body: Any) -> Answer:
    return post(server.port, "/v1/embeddings", {"model": "Org/Bert", "input": TEXTS, **body})


def expected(texts: list[str] = TEXTS) -> npt.NDArray[np.float64]:
    reference = Bert()
    return np.array([reference.mean(word_pieces(text)) for text in texts])


def vectors(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.text
    return [item["embedding"] for item in answer.json["data"]]


def refusal(answer: Answer) -> tuple[int, str, str | None]:
    error = answer.json["error"]
    sizes = {"n_prompt_tokens", "n_ctx"} if error["code"] == "context_length_exceeded" else set()
    assert set(error) == {"message", "type", "param", "code", *sizes}
    return answer.status, error["code"], error["param"]


def test_the_openai_client_in_its_own_format(client: openai.OpenAI) -> None:
    """It asks for base64 by itself, and decodes it."""
    made = client.embeddings.create(model="Org/Bert", input=TEXTS)
    assert [item.index for item in made.data] == [0, 1, 2]
    np.testing.assert_allclose([item.embedding for item in made.data], expected(), atol=TOLERANCE)
    num_tokens = sum(len(word_pieces(text)) for text in TEXTS)
    assert (made.usage.prompt_tokens, made.usage.total_tokens) == (num_tokens, num_tokens)
    assert made.model == "Org/Bert"
    one = client.embeddings.create(model="Org/Bert", input=TEXTS[0], encoding_format="float")
    np.testing.assert_allclose([one.data[0].embedding], expected()[:1], atol=TOLERANCE)
    short = client.embeddings.create(model="Org/Bert", input=TEXTS[0], dimensions=4)
    np.testing.assert_allclose(np.linalg.norm(short.data[0].embedding), 1, atol=1e-6)
    assert len(short.data[0].embedding) == 4


def test_both_formats_hold_the_same_floats(server: Server) -> None:
    answer = embed(server)
    assert answer.json["object"] == "list"
    assert {item["object"] for item in answer.json["data"]} == {"embedding"}
    assert answer.header("x-llmserve-ignored") is None
    floats = vectors(answer)
    packed = vectors(embed(server, encoding_format="base64"))
    for one, other in zip(floats, packed, strict=True):
        unpacked = array.array("f", base64.b64decode(other))
        assert unpacked.tolist() == array.array("f", one).tolist()
    # The shortest numbers: a float has nine digits at most.
    assert len(answer.body) < 3 * WIDTH * 16 + 500


def test_inputs_may_be_token_ids(server: Server) -> None:
    ids = [word_pieces(text) for text in TEXTS]
    many = vectors(embed(server, input=ids))
    np.testing.assert_allclose(many, expected(), atol=TOLERANCE)
    one = embed(server, input=ids[0])
    np.testing.assert_allclose(vectors(one), expected()[:1], atol=TOLERANCE)
    assert one.json["usage"]["prompt_tokens"] == len(ids[0])
    told = post(server.port, "/tokenize", {"model": "Org/Bert", "content": TEXTS[0], "add_special": True})
    assert told.json["tokens"] == ids[0]
    back = post(server.port, "/detokenize", {"model": "Org/Bert", "tokens": ids[1][1:-1]})
    assert back.json["content"].split() == ["trees", ",", "seas", "!"]


def test_a_list_of_many_inputs(server: Server) -> None:
    texts = [TEXTS[number % 3] for number in range(2048)]
    many = vectors(embed(server, input=texts, encoding_format="base64"))
    alone = expected()
    for number in (0, 1, 1000, 2047):
        vector = np.frombuffer(base64.b64decode(many[number]), np.float32)
        np.testing.assert_allclose(vector, alone[number % 3], atol=TOLERANCE)


def test_fields_without_effect_are_named(server: Server) -> None:
    assert embed(server, user="quokka-77").header("x-llmserve-ignored") == "user"


def test_truncation_is_refused(server: Server) -> None:
    answer = embed(server, truncate_prompt_tokens=5)
    assert (answer.status, answer.json["error"]["param"]) == (400, "truncate_prompt_tokens")


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        ({"input": [*TEXTS, LONG]}, 400, "context_length_exceeded", "input[3]"),
        ({"input": [3] * (CONTEXT + 1)}, 400, "context_length_exceeded", "input[0]"),
        ({"input": ["a", [5, 10**6]]}, 400, "invalid_value", "input[1]"),
        ({"input": []}, 400, "invalid_value", "input"),
        ({"input": [[]]}, 400, "invalid_value", "input[0]"),
        ({"input": ["a"] * 2049}, 400, "invalid_value", "input"),
        ({"input": {"text": "a"}}, 400, "invalid_value", "input.prompt_string"),
        ({"input": [True]}, 400, "invalid_value", "input[0]"),
        ({"input": None}, 400, "invalid_value", "input"),
        ({"encoding_format": "hex"}, 400, "invalid_value", "encoding_format"),
        ({"encoding_format": 5}, 400, "invalid_value", "encoding_format"),
        ({"dimensions": 0}, 400, "invalid_value", "dimensions"),
        ({"dimensions": WIDTH + 1}, 400, "invalid_value", "dimensions"),
        ({"dimensions": "8"}, 400, "invalid_value", "dimensions"),
        ({"model": "nobody"}, 404, "model_not_found", "model"),
        ({"model": "llama"}, 400, "wrong_model_kind", "model"),
    ],
)
def test_refusals(server: Server, body: dict[str, Any], status: int, code: str, param: str) -> None:
    assert refusal(embed(server, **body)) == (status, code, param)
    assert len(vectors(embed(server))) == 3


def test_lengths_up_to_the_context(server: Server) -> None:
    """C109: a vector or a refusal, for every length."""
    for num_tokens in (CONTEXT - 1, CONTEXT, CONTEXT + 1):
        answer = embed(server, input=" ".join(["sea"] * (num_tokens - 2)))
        assert answer.status == (200 if num_tokens <= CONTEXT else 400)
    # The frame alone, [CLS] and [SEP], has a vector.
    np.testing.assert_allclose(vectors(embed(server, input="")), expected([""]), atol=TOLERANCE)
    assert refusal(embed(server, model="last", input=[])) == (400, "invalid_value", "input")


def test_llama_servers_own_routes(server: Server) -> None:
    whole = vectors(embed(server))
    for path, name in (("/embedding", "content"), ("/embeddings", "input")):
        answer = post(server.port, path, {name: TEXTS, "model": "Org/Bert"})
        assert [item["index"] for item in answer.json] == [0, 1, 2]
        np.testing.assert_allclose([item["embedding"][0] for item in answer.json], whole, atol=1e-6)
        # The first embedding model, where none is named.
        assert len(post(server.port, path, {name: "a"}).json[0]["embedding"][0]) == WIDTH
        assert refusal(post(server.port, path, {})) == (400, "invalid_value", "content")
        wrong = post(server.port, path, {name: "a", "embd_normalize": 1})
        assert refusal(wrong) == (400, "invalid_value", "embd_normalize")
    raw = post(server.port, "/embedding", {"content": TEXTS[0], "model": "Org/Bert", "embd_normalize": -1})
    vector = np.array(raw.json[0]["embedding"][0])
    assert abs(np.linalg.norm(vector) - 1) > 0.01
    np.testing.assert_allclose(vector / np.linalg.norm(vector), whole[0], atol=1e-5)


def test_the_catalogue_knows_what_models_are_for(server: Server) -> None:
    vectors(embed(server))
    listed = {model["name"]: model for model in get(server.port, "/v1/models").json["models"]}
    assert sorted(listed) == ["Org/Bert", "last", "llama"]
    assert [listed[name]["outputs"] for name in sorted(listed)] == [["dense"], ["dense"], ["text"]]
    assert (listed["Org/Bert"]["dims"], listed["Org/Bert"]["state"]) == ({"dense": WIDTH}, "loaded")
    assert listed["Org/Bert"]["context_length"] == CONTEXT
    assert listed["Org/Bert"]["capabilities"]["streaming"] is False
    one = get(server.port, "/v1/models/Org__Bert").json
    assert (one["outputs"], one["dims"]) == (["dense"], {"dense": WIDTH})
    health = get(server.port, "/health").json["models"]
    (loaded,) = (model for model in health if model["id"] == "Org/Bert")
    assert (loaded["state"], loaded["kind"], loaded["backend"]) == ("ready", "embedding", "CPU")
    assert get(server.port, "/", headers={"Accept": "application/json"}).json["models"] == health


def test_metrics_count_embeddings(server: Server) -> None:
    def metric(name: str) -> float:
        return read_metrics(server.port)[f'llmserve_{name}{{model="Org/Bert"}}']

    vectors(embed(server))
    before = metric("prompt_tokens_total"), metric("requests_stopped_total")
    num_tokens = embed(server).json["usage"]["prompt_tokens"]
    assert metric("prompt_tokens_total") == before[0] + num_tokens
    assert metric("requests_stopped_total") == before[1] + 1


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_model_that_embeds_generates_nothing(folder: Path, tmp_path: Path, is_loaded: bool) -> None:
    with serve_folder(tmp_path, folder) as server:
        if is_loaded:
            vectors(embed(server))
        port = server.port
        for path, body in (
            ("/v1/completions", {"prompt": "a"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}),
            ("/v1/responses", {"input": "a"}),
        ):
            for extra in ({}, {"stream": True}):
                answer = post(port, path, {"model": "Org/Bert", **body, **extra})
                assert refusal(answer) == (400, "wrong_model_kind", "model")
        sie = post(port, "/v1/generate/Org__Bert", {"prompt": "a", "max_new_tokens": 4})
        assert (sie.status, sie.json["error"]["code"], sie.json["error"]["param"]) == (
            400,
            "invalid_request",
            "model",
        )
        # For none of these was the model loaded.
        assert server.states() == (["ready"] if is_loaded else [])
        assert post(port, "/completions", {"model": "Org__Bert.gguf", "prompt": "a"}).status == 400
        loaded = post(port, "/models/load", {"path": "Org__Bert.gguf"})
        assert loaded.status == 200
        assert "gives embeddings" in loaded.text
        assert "[DONE]" not in loaded.text
        llamatik = Llamatik(server).post("init", {"modelPath": "Org__Bert.gguf"})
        assert (llamatik.status, "gives embeddings" in llamatik.text) == (400, True)
        assert Llamatik(server).post("generate", {"prompt": "a"}).status == 409
        # What those have loaded is not kept; what is used goes on.
        wait_until(lambda: server.states() == (["ready"] if is_loaded else []))
        assert len(vectors(embed(server))) == 3


def test_grpc_refuses_an_embedding_model(tiny_models: Path, tmp_path: Path) -> None:
    path = tiny_models / "bert-mean.gguf"
    port = free_port()
    with serve(tmp_path, path, env={"LLMSERVE_GRPC_PORT": str(port)}) as server:
        server.wait_until_ready()
        with connect(port, path) as client:
            for call in (client.call(), client.call(stream=True), client.load(path)):
                failed = failure(call)
                assert failed.code.name == "FAILED_PRECONDITION"
                assert "gives embeddings" in failed.details
        assert server.states() == ["ready"]


def test_serving_one_embedding_model(tiny_models: Path, tmp_path: Path) -> None:
    with serve(tmp_path, tiny_models / "bert-cls.gguf") as server:
        server.wait_for_log(
            "serves bert-cls (bert", f"embeddings      {WIDTH} values (cls pooling)", "/v1/embeddings"
        )
        (model,) = get(server.port, "/health").json["models"]
        assert (model["id"], model["kind"]) == ("bert-cls", "embedding")
        answer = embed(server, model="bert-cls", input=TEXTS[0])
        reference = Bert().cls(word_pieces(TEXTS[0]))
        np.testing.assert_allclose(vectors(answer), [reference], atol=TOLERANCE)
        props = get(server.port, "/props").json
        assert (props["model_alias"], props["chat_template"]) == ("bert-cls", None)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0


def test_a_client_that_leaves_ends_its_request(server: Server) -> None:
    vectors(embed(server))

    def metric(name: str) -> float:
        return read_metrics(server.port)[f'llmserve_{name}{{model="Org/Bert"}}']

    cancelled = metric("requests_cancelled_total")
    many = [" ".join(["sea"] * (CONTEXT - 2))] * 2048
    with RawStream(server.port, "/v1/embeddings", {"model": "Org/Bert", "input": many}):
        wait_until(lambda: metric("requests_running") + metric("requests_waiting") > 0)
    wait_until(lambda: metric("requests_cancelled_total") > cancelled)
    assert len(vectors(embed(server))) == 3


def test_stopping_ends_what_runs(tiny_models: Path, tmp_path: Path) -> None:
    many = [" ".join(["sea"] * (CONTEXT - 2))] * 2048
    with serve(tmp_path, tiny_models / "bert-mean.gguf", env={"LLMSERVE_GRACE_S": "0"}) as server:
        server.wait_until_ready()

        def running() -> float:
            metrics = read_metrics(server.port)
            return metrics['llmserve_requests_running{model="bert-mean"}']

        with RawStream(server.port, "/v1/embeddings", {"model": "bert-mean", "input": many}) as stream:
            wait_until(lambda: running() > 0)
            server.signal(signal.SIGTERM)
            status, headers = stream.read_head()
            assert (status, headers["content-type"]) == (503, "application/json")
            assert json.loads(stream.read_to_close())["error"]["code"] == "server_stopping"
        assert server.wait() == 0
