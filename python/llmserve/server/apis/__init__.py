"""The dialects: each translates between its wire and the engine, and none imports another."""
