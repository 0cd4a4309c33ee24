"""The dialect's parameters: one set for all of its sessions."""

from __future__ import annotations

from llmserve.model_config import ModelConfig
from llmserve.server.apis.llamatik import convert
from llmserve.server.apis.llamatik.schema import ParamsFields
from llmserve.server.fields.sampling import sampling_params
from llmserve.server.web.fields import Values


class Params:
    """What `params` has set. Load options that nobody has set are the server's own."""

    def __init__(self, server_config: ModelConfig) -> None:
        self._server_config = server_config
        self.sampling: Values = convert.DEFAULT_SAMPLING
        self._loading: Values = {}

    @property
    def config(self) -> ModelConfig:
        """The load options of the next load."""
        return convert.model_config(self._server_config, self._loading)

    def config_with(self, given: ParamsFields) -> ModelConfig:
        """The load options as they would be with some changed."""
        return convert.model_config(self._server_config, {**self._loading, **given.loading})

    def check(self, given: ParamsFields) -> None:
        """Raises what is wrong with sampling fields beyond their types.

        Raises:
            InvalidParameterError: The engine refuses a value.
        """
        sampling_params({**self.sampling, **given.sampling})

    def merge(self, given: ParamsFields) -> None:
        """Takes the fields that are given."""
        self.sampling = {**self.sampling, **given.sampling}
        self._loading = {**self._loading, **given.loading}
