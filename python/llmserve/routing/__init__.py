"""Which replica of many gets a request: pure rules, without a network, a clock or a particular router."""

from llmserve.routing.affinity import Affinity, Choice
from llmserve.routing.keys import BLOCK_BYTES, RoutingKey, blocks_of, key_of

__all__ = ["BLOCK_BYTES", "Affinity", "Choice", "RoutingKey", "blocks_of", "key_of"]
