"""Builds a wheel that runs on any Linux of the last years with this machine's architecture, into `dist`.

With a cargo feature for a GPU, ggml's module for it is in the wheel too, which then goes into `dist/FEATURE`:
it has the same name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from native import requested_features  # noqa: E402
from portable.environment import portable_environment  # noqa: E402
from portable.old_glibc import RELEASE  # noqa: E402
from portable.pack import pack  # noqa: E402
from progress import ProgressReporter  # noqa: E402
from toolchain import BuildSetupError, output  # noqa: E402

OUT = ROOT / "dist"


def main() -> None:
    """Build, pack and check."""
    target = _host()
    try:
        gpu = requested_features()
        features = ("portable", *gpu)
        env = {**os.environ, **portable_environment(target, features)}
    except BuildSetupError as error:
        sys.exit(f"llmserve: {error}")
    env["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]])
    built = Path(env["CARGO_TARGET_DIR"])
    with tempfile.TemporaryDirectory() as folder, ProgressReporter(built / target):
        subprocess.run(_maturin(target, features, folder), check=True, cwd=ROOT, env=env)
        [wheel] = Path(folder).glob("*.whl")
        platform = f"manylinux_{'_'.join(map(str, RELEASE))}_{target.split('-')[0]}"
        packed = pack(wheel, _libraries(built / target / "release"), platform, OUT.joinpath(*gpu))
    print(f"{packed.relative_to(ROOT)}: {packed.stat().st_size / 1e6:.1f} MB")


def _host() -> str:
    [line] = [line for line in output(["rustc", "-vV"]).splitlines() if line.startswith("host: ")]
    return line.removeprefix("host: ")


def _maturin(target: str, features: tuple[str, ...], folder: str) -> list[str]:
    # With a target, the flags are not those of build scripts.
    command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--target", target]
    options = ["--no-default-features", "--features", ",".join(features), "--compatibility", "linux"]
    return [*command, *options, "--auditwheel", "skip", "--out", folder]


def _libraries(release: Path) -> list[Path]:
    """llama.cpp's libraries and modules, of the latest build."""
    builds = release.glob("build/llama-cpp-sys-2-*/out")
    latest = max(
        builds, key=lambda out: (out / "backends").stat().st_mtime if (out / "backends").is_dir() else 0
    )
    return [*latest.glob("lib/*.so"), *latest.glob("backends/*.so")]


if __name__ == "__main__":
    main()
