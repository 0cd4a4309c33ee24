"""The dialect's parameters: one set for all of its sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmserve.model_config import ModelConfig
from llmserve.server.apis.llamatik import convert
from llmserve.server.apis.llamatik.schema import ParamsFields, SamplingFields


class Params:
    """What `params` has set. Load options that nobody has set are the server's own."""

    def __init__(self, server_config: ModelConfig) -> None:
        self._server_config = server_config
        self.sampling: SamplingFields = convert.DEFAULT_SAMPLING
        self._load_options: Mapping[str, Any] = {}

    @property
    def config(self) -> ModelConfig:
        """The load options of the next load."""
        return convert.model_config(self._server_config, self._load_options)

    def config_with(self, given: ParamsFields) -> ModelConfig:
        """The load options as they would be with some more."""
        options = {**self._load_options, **convert.load_options(given)}
        return convert.model_config(self._server_config, options)

    def check(self, given: SamplingFields) -> None:
        """Raises what is wrong with sampling fields beyond their types.

        Raises:
            InvalidParameterError: What the engine does not take.
        """
        convert.sampling_params(convert.merged(self.sampling, given))

    def merge(self, given: ParamsFields) -> None:
        """Takes the fields that are given."""
        self.sampling = convert.merged(self.sampling, given)
        self._load_options = {**self._load_options, **convert.load_options(given)}
