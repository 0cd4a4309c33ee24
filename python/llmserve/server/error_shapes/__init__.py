"""How errors look to clients of OpenAI, Anthropic, Ollama and SIE; several folders of `apis` answer like this."""
