"""Completions as llamacpp-server has them: what its HTTP and its gRPC dialect have in common."""
