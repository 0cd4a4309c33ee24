"""The SIE dialect: ``POST /v1/generate/{model}``, as the client ``sie-sdk`` calls it."""
