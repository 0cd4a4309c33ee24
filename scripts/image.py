"""Build a container image of a wheel from Debian's packages, without a registry or a container engine.

``python scripts/image.py dist/llmserve-*.whl`` writes ``dist/llmserve-image.tar``, an archive of the OCI
layout, which ``podman load``, ``docker load`` and ``skopeo copy oci-archive:`` read. It needs Debian's
``mmdebstrap``, and root or user namespaces.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from oci import read_settings, write_archive  # noqa: E402

SUITE = "bookworm"
# The suite's Python, and where it looks for packages that are not Debian's.
PYTHON = "3.11"
PACKAGES = f"usr/local/lib/python{PYTHON}/dist-packages"
LEFT_OUT = ("doc", "man", "locale", "info", "lintian")


def main() -> int:
    """Builds the image of the wheel on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("wheel", type=Path, help="llmserve's wheel, as `make wheel` builds it")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "llmserve-image.tar")
    arguments = parser.parse_args()
    if shutil.which("mmdebstrap") is None:
        sys.exit("llmserve: mmdebstrap is missing.\nhint: sudo apt-get install mmdebstrap")
    settings = read_settings((ROOT / "Containerfile").read_text())
    version = arguments.wheel.name.split("-")[1]
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        added = Path(folder, "added")
        _install(arguments.wheel, added / PACKAGES)
        root = Path(folder, "root.tar")
        _make_root(added, root, settings["User"])
        write_archive(arguments.output, root, settings, f"llmserve:{version}")
    print(arguments.output)
    return 0


def _install(wheel: Path, target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += ["--target", str(target), "--python-version", PYTHON, "--only-binary=:all:", "--no-deps"]
    locked = ["--require-hashes", "-r", str(ROOT / "requirements" / "serve.lock")]
    for what in (locked, [str(wheel)]):
        subprocess.run([*pip, *what], check=True)
        # Scripts of packages, whose first line names this machine's interpreter.
        shutil.rmtree(target / "bin", ignore_errors=True)


def _make_root(added: Path, target: Path, user: str) -> None:
    """Writes the root file system: Debian's packages and what is in the folder ``added``."""
    options = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
    compiled = f"/{PACKAGES} /usr/lib/python{PYTHON}"
    hooks = [
        f"copy-in {added}/usr /",
        f'chroot "$1" python3 -m compileall -q --invalidation-mode unchecked-hash {compiled} || true',
        f'chroot "$1" install -d -o {user.replace(":", " -g ")} /models',
        'rm -rf "$1"/var/cache/* "$1"/var/log/* "$1"/var/lib/apt/lists/*',
    ]
    subprocess.run(
        [
            *("mmdebstrap", "--quiet", "--variant=essential"),
            "--include=python3-minimal,libpython3-stdlib,ca-certificates",
            *options,
            *(f"--customize-hook={hook}" for hook in hooks),
            *(SUITE, str(target)),
        ],
        # Times of files are no later than this, so that equal packages give an equal image.
        env={"SOURCE_DATE_EPOCH": "0", **os.environ},
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
