"""The llamacpp-server dialect: ``/models/load`` and ``/completions``."""
