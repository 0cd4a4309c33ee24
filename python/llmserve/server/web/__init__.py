"""What all HTTP dialects share: exchanges, streams, limits, errors and middleware."""
