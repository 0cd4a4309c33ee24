"""Errors as clients of OpenAI, Anthropic, Ollama and SIE know them; several folders of `apis` use them."""
