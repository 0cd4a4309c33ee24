"""Write a container image as an archive of the OCI image layout.

Formats: https://github.com/opencontainers/image-spec (image-layout, manifest, config). ``Healthcheck`` in the
config is Docker's extension.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import re
import shlex
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MEDIA = "application/vnd.oci.image"


def read_settings(containerfile: str) -> dict[str, Any]:
    """The configuration that the last stage of a Containerfile gives its image.

    ``CMD``, ``ENTRYPOINT`` and ``HEALTHCHECK`` are read in their JSON form, besides ``ENV``, ``EXPOSE``,
    ``LABEL`` and ``USER``.
    """
    settings: dict[str, Any] = {"Env": []}
    for name, rest in _instructions(containerfile):
        match name:
            case "FROM":
                settings = {"Env": []}
            case "ENV":
                settings["Env"] += shlex.split(rest)
            case "LABEL":
                settings["Labels"] = dict(part.split("=", 1) for part in shlex.split(rest))
            case "EXPOSE":
                settings["ExposedPorts"] = {f"{port}/tcp": {} for port in rest.split()}
            case "USER":
                settings["User"] = rest
            case "ENTRYPOINT":
                settings["Entrypoint"] = json.loads(rest)
            case "CMD":
                settings["Cmd"] = json.loads(rest)
            case "HEALTHCHECK":
                settings["Healthcheck"] = _health_check(rest)
    return settings


def _instructions(containerfile: str) -> Iterator[tuple[str, str]]:
    lines = (line for line in containerfile.splitlines() if not line.startswith("#"))
    for instruction in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        if instruction.strip():
            name, _, rest = instruction.strip().partition(" ")
            yield name, rest.strip()


def _health_check(text: str) -> dict[str, Any]:
    options, _, command = text.partition("CMD ")
    check: dict[str, Any] = {"Test": ["CMD", *json.loads(command)]}
    for option in options.split():
        name, value = option.removeprefix("--").split("=")
        key = "".join(word.capitalize() for word in name.split("-"))
        # Docker's durations are in nanoseconds.
        check[key] = int(value.removesuffix("s")) * 10**9 if value.endswith("s") else int(value)
    return check


@dataclass(frozen=True)
class _Blob:
    media_type: str
    digest: str
    content: bytes

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": f"sha256:{self.digest}", "size": len(self.content)}


def _blob(kind: str, content: bytes) -> _Blob:
    return _Blob(f"{_MEDIA}.{kind}", hashlib.sha256(content).hexdigest(), content)


def _json_blob(kind: str, value: dict[str, Any]) -> _Blob:
    return _blob(kind, json.dumps(value, sort_keys=True).encode())


def write_archive(target: Path, root: Path, settings: dict[str, Any], name: str) -> None:
    """Writes an image of one layer; the archive appears under its name when it is whole.

    Args:
        target: The archive.
        root: The root file system, a tar file.
        settings: The image's ``config``.
        name: The reference under which engines store it, such as ``llmserve:0.1.0``.
    """
    plain = root.read_bytes()
    # Without a time, equal content gives an equal digest.
    layer = _blob("layer.v1.tar+gzip", gzip.compress(plain, compresslevel=6, mtime=0))
    config = _json_blob(
        "config.v1+json",
        {
            "architecture": _MACHINES[platform.machine()],
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        },
    )
    manifest = _json_blob(
        "manifest.v1+json",
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": config.descriptor,
            "layers": [layer.descriptor],
        },
    )
    reference = {"org.opencontainers.image.ref.name": name}
    index = {"schemaVersion": 2, "manifests": [{**manifest.descriptor, "annotations": reference}]}
    partial = target.with_suffix(".part")
    with tarfile.open(partial, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps(index).encode())
        for blob in (layer, config, manifest):
            _add(archive, f"blobs/sha256/{blob.digest}", blob.content)
    partial.replace(target)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    info.mode = 0o644
    archive.addfile(info, io.BytesIO(content))
