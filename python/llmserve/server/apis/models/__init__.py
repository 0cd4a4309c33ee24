"""The catalogue over HTTP, for the clients of OpenAI and of SIE alike."""
