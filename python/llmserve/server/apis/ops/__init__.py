"""Routes for operators and readers: health, metrics, the OpenAPI document and its page."""
