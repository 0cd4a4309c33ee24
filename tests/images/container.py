"""A container without a container engine: namespaces, a read-only root file system, no privileges."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What engines set where an image does not.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Arguments: the root file system, the models' folder, user, group, and the command.
_ENTER = """
root=$1 models=$2 user=$3 group=$4; shift 4
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$models" "$root/models"
mount -o remount,bind,ro "$root/models"
mount -o remount,bind,ro "$root"
cd "$root"
exec setpriv --no-new-privs --bounding-set=-sys_admin,-dac_override \\
    chroot --userspec="$user:$group" "$root" "$@"
"""
_NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child")


@dataclass(frozen=True, slots=True)
class Container:
    """A running container; its network is that of the tests."""

    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]
    log: Path

    @property
    def pid(self) -> int:
        """The first process in the container, as it is known outside."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return int(children.split()[0])

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be written to the root file system."""
        mounts = Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()
        [root] = [fields for fields in map(str.split, mounts) if fields[4] == "/"]
        return "ro" in root[5].split(",")

    def status(self, name: str) -> str:
        """A field of the first process's status, such as ``Uid``."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [value] = [line.partition(":")[2] for line in lines if line.startswith(f"{name}:")]
        return value.strip()

    def run(self, command: Sequence[str]) -> int:
        """The exit status of another command in the container, as engines run health checks."""
        entered = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--root"]
        return subprocess.run([*entered, *command], env=dict(self.environment), check=False).returncode

    def stop(self) -> int:
        """Sends SIGTERM as engines do; the exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self.process.wait()


@contextmanager
def running(
    root: Path, settings: Mapping[str, Any], models: Path, environ: Mapping[str, str], log: Path
) -> Iterator[Container]:
    """Starts what an image's settings say, with more variables."""
    user, group = settings["User"].split(":")
    pairs = (pair.partition("=") for pair in settings["Env"])
    environment = {"PATH": _PATH, **{name: value for name, _, value in pairs}, **environ}
    command = ["unshare", *_NAMESPACES, "sh", "-euc", _ENTER, "enter", str(root), str(models), user, group]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *settings["Entrypoint"], *settings["Cmd"]],
            env=environment,
            stdout=output,
            stderr=output,
        )
    try:
        yield Container(process, environment, log)
    finally:
        process.kill()
        process.wait()
