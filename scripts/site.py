"""Builds the documentation's site into target/site/html: ``make site``.

Pages are the files of `docs` and those of `ROOT_PAGES`; other files of the repository that they link to come
with them. The generator has an environment of its own in the cache; without a package index the build is
skipped. A warning, or a page that loads anything from a network, is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build_support"))

from environments import InstallError, environment_python  # noqa: E402

DOCS = ROOT / "docs"
WORK = ROOT / "target" / "site"
ROOT_PAGES = {
    "README.md": "first-minute.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
# A link of Markdown to a file: no address, no mere anchor.
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
# What a browser fetches by itself; a link that a reader may follow is none.
FETCHED = re.compile(r"""<(?:script|img|link rel="?stylesheet"?)[^>]*(?:src|href)=["']?(?:https?:)?//""")

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """Builds the site; 1 where it has a fault."""
    try:
        python = environment_python(sys.executable, "site")
    except InstallError as error:
        if not error.is_offline:
            raise
        print("the site is not built: no package index can be reached")
        return 0
    shutil.rmtree(WORK, ignore_errors=True)
    gather(WORK / "docs")
    command = [python, "-m", "zensical", "build", "--strict", "--clean"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(COLOUR.sub("", built.stdout), end="")
    if built.returncode != 0:
        return 1
    pages = sorted((WORK / "html").rglob("*.html"))
    fetching = [page.name for page in pages if FETCHED.search(page.read_text())]
    if fetching:
        print(f"these pages load something from a network: {', '.join(fetching)}")
    folder = (WORK / "html").relative_to(ROOT)
    print(f"{len(pages)} pages in {folder}; to read them: python3 -m http.server -d {folder} -b 127.0.0.1")
    return 1 if fetching else 0


def gather(target: Path) -> None:
    """Copies all pages to `target`, with their links changed to where the pages are there."""
    target.mkdir(parents=True)
    for source in [*DOCS.rglob("*"), *(ROOT / name for name in ROOT_PAGES)]:
        place = target / _place(source)
        if source.suffix == ".md":
            place.write_text(LINK.sub(partial(_moved, source, target), source.read_text()))
        elif source.is_file():
            _copy(source, place)


def _moved(page: Path, target: Path, link: re.Match[str]) -> str:
    linked = (page.parent / link[1]).resolve()
    place = _place(linked)
    if linked.is_file() and not linked.is_relative_to(DOCS) and linked.suffix != ".md":
        _copy(linked, target / place)
    return Path(os.path.relpath(target / place, (target / _place(page)).parent)).as_posix()


def _place(source: Path) -> Path:
    """Where a file of the repository is in the site."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    name = source.relative_to(ROOT).as_posix()
    return Path(ROOT_PAGES.get(name, f"files/{name}"))


def _copy(source: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, place)


if __name__ == "__main__":
    sys.exit(main())
