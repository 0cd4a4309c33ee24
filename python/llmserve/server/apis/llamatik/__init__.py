"""The Llamatik dialect: ``/v1/generation/*``."""
