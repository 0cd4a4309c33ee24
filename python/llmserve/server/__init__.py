"""The server: an ASGI application with several dialects over one registry of models."""
