"""The file of settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmserve.model_config import LoraAdapter
from llmserve.server.settings import Settings, SettingsError, parse_settings


def parsed(folder: Path, text: str, environ: dict[str, str] | None = None, **overrides: str) -> Settings:
    file = folder / "llmserve.toml"
    file.write_text(text)
    return parse_settings({"LLMSERVE_CONFIG": str(file), **(environ or {})}, overrides)


def test_keys_are_the_names_of_settings_in_tables_or_not(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\n\nsecond\n")
    settings = parsed(
        tmp_path,
        """
        context-length = "8k"
        model = "models/a.gguf"
        lora = ["b.gguf=0.5", "/c.gguf"]

        [server]
        port = 9000
        [security]
        api_key_file = "keys"
        [memory]
        use_mmap = false
        parking_bytes = "1.5GiB"
        [default_sampling]
        temperature = 0.5
        """,
    )
    assert (settings.port, settings.model) == (9000, tmp_path / "models/a.gguf")
    assert [settings.api_key.authorize(key) for key in ("first", "second", "keys")] == [True, True, False]
    assert settings.default_sampling == {"temperature": 0.5}
    config = settings.model_config
    assert (config.context_length, config.use_mmap, config.parking_bytes) == (8192, False, 3 << 29)
    assert config.lora == (
        LoraAdapter(path=str(tmp_path / "b.gguf"), scale=0.5),
        LoraAdapter(path="/c.gguf"),
    )


def test_a_short_name_of_a_model_stays_one(tmp_path: Path) -> None:
    assert parsed(tmp_path, 'model = "smollm2"').model == Path("smollm2")


def test_options_and_variables_override_the_file(tmp_path: Path) -> None:
    text = "port = 1\ngrace_s = 1\nthreads = 1"
    settings = parsed(tmp_path, text, {"LLMSERVE_GRACE_S": "2", "LLMSERVE_THREADS": "2"}, threads="3")
    assert (settings.port, settings.grace_s, settings.model_config.threads) == (1, 2, 3)
    # An empty variable counts as unset.
    assert parsed(tmp_path, text, {"LLMSERVE_PORT": ""}).port == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prot = 1", "prot is unknown\nhint: did you mean port?"),
        ("[server]\nhots = 'a'", "hots is unknown\nhint: did you mean host?"),
        ("[sever]\nhost = 'a'", "the table [sever] is unknown\nhint: did you mean server?"),
        ("config = 'a'", "config is unknown"),
        ("port = 1\n[server]\nport = 2", "port is given twice"),
        ("context-length = 1\ncontext_length = 1", "context_length is given twice"),
        ("port = 70000", "port must be from 0 to 65535, got 70000"),
        ("port = true", "port must be a whole number, got 'true'"),
        ("port = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parsed(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "llmserve.toml"))
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml cannot be read: No such file"):
        parse_settings({}, {"config": str(tmp_path / "none.toml")})


def test_keys_are_given_in_one_way(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a\n")
    with pytest.raises(SettingsError, match="api_key and api_key_file cannot both be set"):
        parsed(tmp_path, "api_key_file = 'keys'", {"LLMSERVE_API_KEY": "b"})
    (tmp_path / "keys").write_text("\n")
    with pytest.raises(SettingsError, match="api_key_file must contain at least one key, got none"):
        parsed(tmp_path, "api_key_file = 'keys'")
