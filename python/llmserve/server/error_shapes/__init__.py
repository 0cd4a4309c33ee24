"""How errors look to clients of OpenAI, Anthropic and SIE; several folders of `apis` answer like this."""
