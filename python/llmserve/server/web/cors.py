"""CORS for origins that the operator lists, or for all of this machine."""

from __future__ import annotations

from starlette.middleware.cors import CORSMiddleware

from llmserve.server.trust.origins import LOCALHOST, is_local_origin


class Cors(CORSMiddleware):
    """Starlette's, with `localhost` among the origins as all of this machine, whatever their port."""

    def is_allowed_origin(self, origin: str) -> bool:
        """Whether pages of an origin may read answers."""
        return super().is_allowed_origin(origin) or (
            LOCALHOST in self.allow_origins and is_local_origin(origin)
        )
