"""The tables of what a client may set for a generation or for a load; dialects say how they differ."""
