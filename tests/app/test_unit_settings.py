from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from llmserve.cli.parser import build_parser
from llmserve.model_config import LoraAdapter, ModelConfig
from llmserve.server.settings import VARIABLES, DraftSettings, Settings, SettingsError, parse_settings
from llmserve.server.settings.load_options import MODEL_VARIABLES
from llmserve.server.settings.variables import DRAFT_VARIABLES, SERVER_VARIABLES


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = parse_settings({"HOME": "/home/x"})
    assert settings.model_config == ModelConfig()
    assert (
        settings.drafting == DraftSettings() == DraftSettings(draft="off", draft_len=3, draft_adaptive=True)
    )
    assert (settings.host, settings.port) == ("127.0.0.1", 8082)
    assert settings.max_body_bytes == 16 * 1024 * 1024
    assert (settings.max_bodies_bytes, settings.body_timeout_s) == (256 * 1024 * 1024, 60)
    assert (settings.sse_ping_s, settings.grace_s, settings.stall_s) == (10, 10, 60)
    assert (settings.model, settings.models_dir, settings.sessions_dir) == (None, None, None)
    assert settings.cors_origins == ()


def test_every_field_of_the_model_config_is_a_variable() -> None:
    assert [v.name for v in MODEL_VARIABLES] == [field.name for field in dataclasses.fields(ModelConfig)]


def test_every_field_of_the_settings_is_a_variable() -> None:
    fields = [field.name for field in dataclasses.fields(Settings)]
    assert [v.name for v in SERVER_VARIABLES] == fields[:-3]
    assert {v.name for v in VARIABLES} - set(fields) - {v.name for v in MODEL_VARIABLES} == {
        *(v.name for v in DRAFT_VARIABLES),
        "api_key_file",
        "chat_template_file",
        "config",
    }
    assert fields[-3:] == ["drafting", "model_config", "notices"]
    assert [v.name for v in DRAFT_VARIABLES] == [field.name for field in dataclasses.fields(DraftSettings)]


def test_defaults_of_the_table_are_those_of_the_model_config() -> None:
    for variable in MODEL_VARIABLES:
        if variable.default:
            assert variable.kind.parse(variable.default) == getattr(ModelConfig(), variable.name), (
                variable.name
            )


def test_values_of_all_kinds(tmp_path: Path) -> None:
    settings = parse_settings(
        {
            "LLMSERVE_PORT": "0",
            "MODELS_DIR": str(tmp_path),
            "SESSIONS_DIR": "/srv/sessions",
            "LLMSERVE_MODEL": "/m.gguf",
            "LLMSERVE_CACHE_DIR": "/cache",
            "LLMSERVE_CORS_ORIGINS": "https://a.example, https://b.example",
            "LLMSERVE_THREADS": "3",
            "LLMSERVE_FLASH_ATTENTION": "off",
            "LLMSERVE_USE_MMAP": "0",
            "LLMSERVE_KV_TYPE_V": "Q8_0",
            "LLMSERVE_TENSOR_SPLIT": "1,2.5",
            "LLMSERVE_ROPE_SCALING": "yarn",
            "LLMSERVE_METADATA_OVERRIDES": '{"llama.rope.freq_base": 5e5, "x": true}',
            "LLMSERVE_LORA": "/a.gguf,/b.gguf=0.5",
            "LLMSERVE_DRAFT": "MTP",
            "LLMSERVE_DRAFT_LEN": "5",
            "LLMSERVE_DRAFT_ADAPTIVE": "off",
        }
    )
    assert settings.port == 0
    assert (settings.models_dir, settings.sessions_dir) == (tmp_path, Path("/srv/sessions"))
    assert settings.cache_dir == Path("/cache")
    assert settings.drafting == DraftSettings(draft="mtp", draft_len=5, draft_adaptive=False)
    assert settings.cors_origins == ("https://a.example", "https://b.example")
    assert settings.model_config == ModelConfig(
        threads=3,
        flash_attention=False,
        use_mmap=False,
        kv_type_v="q8_0",
        tensor_split=(1.0, 2.5),
        rope_scaling="yarn",
        metadata_overrides={"llama.rope.freq_base": 5e5, "x": True},
        lora=(LoraAdapter(path="/a.gguf"), LoraAdapter(path="/b.gguf", scale=0.5)),
    )


def test_options_win_over_the_environment() -> None:
    settings = parse_settings({"LLMSERVE_PORT": "1", "LLMSERVE_THREADS": "1"}, {"port": "2"})
    assert settings.port == 2
    assert settings.model_config.threads == 1


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LLMSERVE_PORT": "70000"}, "LLMSERVE_PORT must be from 0 to 65535, got 70000"),
        ({"LLMSERVE_PORT": "http"}, "LLMSERVE_PORT must be a whole number, got 'http'"),
        ({"LLMSERVE_GRACE_S": "nan"}, "LLMSERVE_GRACE_S must be a finite number from 0 to 86400, got nan"),
        ({"LLMSERVE_USE_MMAP": "maybe"}, "LLMSERVE_USE_MMAP must be true or false, got 'maybe'"),
        (
            {"LLMSERVE_KV_LAYOUT": "both"},
            "LLMSERVE_KV_LAYOUT must be one of auto, per_sequence, unified, got 'both'",
        ),
        (
            {"LLMSERVE_DRAFT": "eagle"},
            "LLMSERVE_DRAFT must be one of off, auto, mtp, prompt_lookup, got 'eagle'",
        ),
        (
            {"LLMSERVE_MAX_BODY_BYTES": "5000", "LLMSERVE_MAX_BODIES_BYTES": "4000"},
            "LLMSERVE_MAX_BODIES_BYTES must be at least LLMSERVE_MAX_BODY_BYTES (5000), got 4000",
        ),
        ({"LLMSERVE_DRAFT_LEN": "9"}, "LLMSERVE_DRAFT_LEN must be from 1 to 8, got 9"),
        (
            {"LLMSERVE_CORS_ORIGINS": "https://a.example/chat"},
            "LLMSERVE_CORS_ORIGINS must be origins such as https://app.example, without a path, localhost or "
            "*, got 'https://a.example/chat'",
        ),
        ({"LLMSERVE_METADATA_OVERRIDES": "[]"}, "LLMSERVE_METADATA_OVERRIDES must be a JSON object"),
        (
            {"LLMSERVE_CONTEXT_LENGHT": "1"},
            "LLMSERVE_CONTEXT_LENGHT is not a setting of llmserve\nhint: did you mean "
            "LLMSERVE_CONTEXT_LENGTH?",
        ),
    ],
)
def test_bad_values_name_variable_limit_and_value(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(environ)
    assert str(caught.value) == message


SERVICE_LINKS = {
    "LLMSERVE_SERVICE_HOST": "10.0.0.1",
    "LLMSERVE_SERVICE_PORT": "8082",
    "LLMSERVE_SERVICE_PORT_HTTP": "8082",
    "LLMSERVE_PORT": "tcp://10.0.0.1:8082",
    "LLMSERVE_PORT_8082_TCP": "tcp://10.0.0.1:8082",
    "LLMSERVE_PORT_8082_TCP_PROTO": "tcp",
    "LLMSERVE_PORT_8082_TCP_PORT": "8082",
    "LLMSERVE_PORT_8082_TCP_ADDR": "10.0.0.1",
    "LLMSERVE_PORT_53_UDP": "udp://10.0.0.1:53",
    # Variables of the Services `llmserve-gateway` and `llmserve-grpc`: the last one has a setting's name.
    "LLMSERVE_GATEWAY_SERVICE_HOST": "10.0.0.2",
    "LLMSERVE_GATEWAY_PORT": "tcp://10.0.0.2:80",
    "LLMSERVE_GATEWAY_PORT_80_TCP_ADDR": "10.0.0.2",
    "LLMSERVE_GRPC_PORT": "tcp://10.0.0.3:50052",
}


def test_what_kubernetes_sets_for_services_is_ignored_with_one_line() -> None:
    settings = parse_settings({**SERVICE_LINKS, "LLMSERVE_THREADS": "3"})
    assert (settings.port, settings.grpc_port, settings.model_config.threads) == (8082, None, 3)
    (notice,) = settings.notices
    assert notice.level == logging.INFO
    assert "Kubernetes" in notice.text
    assert "LLMSERVE_GATEWAY_PORT" in notice.text
    assert f"and {len(SERVICE_LINKS) - 3} more" in notice.text


@pytest.mark.parametrize("name", sorted(SERVICE_LINKS))
def test_each_of_these_variables_alone_is_ignored(name: str) -> None:
    settings = parse_settings({name: SERVICE_LINKS[name]})
    assert settings.port == 8082
    assert name in settings.notices[0].text


def test_no_setting_has_a_name_that_kubernetes_could_set() -> None:
    settings = parse_settings({variable.env: "" for variable in VARIABLES})
    assert settings.notices == ()


@pytest.mark.parametrize("value", ["http://10.0.0.1", "8082tcp://", "tcp"])
def test_other_wrong_ports_are_still_errors(value: str) -> None:
    with pytest.raises(SettingsError, match="LLMSERVE_PORT must be a whole number"):
        parse_settings({"LLMSERVE_PORT": value})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("LLMSERVE_MODELS", "LLMSERVE_MODEL"),
        ("LLMSERVE_API_KEYS", "LLMSERVE_API_KEY"),
        ("LLMSERVE_MODELS_DIR", "MODELS_DIR"),
        ("LLMSERVE_SESSION_DIR", "SESSIONS_DIR"),
        ("LLMSERVE_CORS_ORIGIN", "LLMSERVE_CORS_ORIGINS"),
        ("LLMSERVE_PROT", "LLMSERVE_PORT"),
        ("LLMSERVE_HOTS", "LLMSERVE_HOST"),
        ("LLMSERVE_API_KYE", "LLMSERVE_API_KEY"),
    ],
)
def test_misspelt_settings_are_errors(name: str, meant: str) -> None:
    with pytest.raises(
        SettingsError, match=f"^{name} is not a setting of llmserve\nhint: did you mean {meant}\\?$"
    ):
        parse_settings({name: "x"})


@pytest.mark.parametrize(
    "name", ["LLMSERVE_IMAGE", "LLMSERVE_VERSION", "LLMSERVE_HOME", "LLMSERVE_GATEWAY_PORT"]
)
def test_other_unknown_names_are_warned_of(name: str) -> None:
    (notice,) = parse_settings({name: "x"}).notices
    assert notice.level == logging.WARNING
    assert notice.text == f"{name} is not a setting of llmserve and has no effect"


def test_a_bad_option_is_named_as_an_option() -> None:
    with pytest.raises(SettingsError, match="--max-sequences must be from 1 to 256, got 0"):
        parse_settings({}, {"max_sequences": "0"})


def test_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args(["serve", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for variable in VARIABLES:
        assert variable.env in text
        assert variable.option in text or variable.name == "model"


def test_a_chat_template_is_given_as_text_or_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text("{{ messages }}" + " " * 100_000)
    by_file = parse_settings({"LLMSERVE_CHAT_TEMPLATE_FILE": str(file)})
    assert by_file.model_config.chat_template == file.read_text()
    assert parse_settings({}, {"chat_template": "{{ a }}"}).model_config.chat_template == "{{ a }}"
    with pytest.raises(SettingsError, match="chat_template and chat_template_file cannot both be set"):
        parse_settings({"LLMSERVE_CHAT_TEMPLATE_FILE": str(file), "LLMSERVE_CHAT_TEMPLATE": "{{ a }}"})
    with pytest.raises(SettingsError, match="LLMSERVE_CHAT_TEMPLATE_FILE must be a file that can be read"):
        parse_settings({"LLMSERVE_CHAT_TEMPLATE_FILE": str(tmp_path)})


def test_default_sampling() -> None:
    given = '{"temperature": 0.5, "repetition_penalty": 1.1}'
    settings = parse_settings({"LLMSERVE_DEFAULT_SAMPLING": given})
    assert settings.default_sampling == {"temperature": 0.5, "repetition_penalty": 1.1}
    for wrong, words in (
        ("[]", "must be a JSON object"),
        ("{", "must be a JSON object, got invalid JSON"),
        ('{"seed": 1}', "must have only temperature, .*, got 'seed'"),
        ('{"top_p": 2}', "has a wrong value: top_p: must be a number from 0 to 1, got 2"),
    ):
        with pytest.raises(SettingsError, match=f"LLMSERVE_DEFAULT_SAMPLING {words}"):
            parse_settings({"LLMSERVE_DEFAULT_SAMPLING": wrong})


@pytest.mark.parametrize(
    "address", ["nowhere", "inproc://x", "tcp://*:0", "tcp://*:99999", "tcp://:port", "tcp://*:8080"]
)
def test_addresses_for_events_that_cannot_be_used(address: str) -> None:
    with pytest.raises(SettingsError, match="LLMSERVE_KV_EVENTS"):
        parse_settings({"LLMSERVE_KV_EVENTS": address, "LLMSERVE_PORT": "8080"})
