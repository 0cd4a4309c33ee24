"""Routes for operators and readers: health, metrics, the index and the OpenAPI document."""
