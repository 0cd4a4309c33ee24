"""Makes the expected texts of the template corpus with Hugging Face's transformers; no test runs this.

python -m venv SCRATCH && SCRATCH/bin/pip install transformers==5.24.0 jinja2
SCRATCH/bin/python make.py                      render every template in jinja/ again
SCRATCH/bin/python make.py --from LLAMA_CPP     take the templates from a llama.cpp source tree first
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CLOCK = datetime.datetime(2025, 3, 14, 9, 26, 53)


class Clock:
    """Stands for `datetime` where transformers ask for the date."""

    @staticmethod
    def now() -> datetime.datetime:
        """The frozen clock."""
        return CLOCK


_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}


def take_templates(llama_cpp: Path, manifest: list[dict[str, Any]]) -> None:
    """Writes jinja/ from the files of llama.cpp that the manifest names."""
    for entry in manifest:
        source = (llama_cpp / entry["path"]).read_text(encoding="utf-8") if entry["path"] else None
        if source is None:
            continue
        if entry["path"].endswith(".cpp"):
            source = _literal_after(source, entry["entry"])
        (HERE / "jinja" / f"{entry['name']}.jinja").write_text(source, encoding="utf-8")


def _literal_after(source: str, name: str) -> str:
    """The template of a test case, which stands there as C++ string literals."""
    start = source.index(f'/* .name= */ "{name}"')
    start = source.index("/* .template_str= */", start)
    end = source.index("/* .expected_output= */", start)
    text = "".join(match[1] for match in _LITERAL.finditer(source, start, end))
    return re.sub(r"\\(.)", lambda match: _ESCAPES[match[1]], text)


def render_all(manifest: list[dict[str, Any]], cases: dict[str, Any]) -> None:
    """Writes expected/: for each template, each case's text or error."""
    from transformers.utils import chat_template_utils  # type: ignore[import-not-found]

    chat_template_utils.datetime = Clock
    for entry in manifest:
        source = (HERE / "jinja" / f"{entry['name']}.jinja").read_text(encoding="utf-8")
        results = {
            name: _render(chat_template_utils, source, entry["tokens"], case) for name, case in cases.items()
        }
        text = json.dumps(results, ensure_ascii=False, indent=0)
        (HERE / "expected" / f"{entry['name']}.json").write_text(text + "\n", encoding="utf-8")


def _render(transformers: Any, source: str, tokens: dict[str, str], case: dict[str, Any]) -> dict[str, str]:
    """What `apply_chat_template` does, without a tokenizer."""
    case = json.loads(json.dumps(case))
    case.setdefault("add_generation_prompt", True)
    messages = transformers._normalize_chat_messages(case.pop("messages"))
    try:
        rendered, _ = transformers.render_jinja_template([messages], chat_template=source, **tokens, **case)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"text": rendered[0]}


def main() -> None:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description="Makes the expected texts of the template corpus.")
    parser.add_argument("--from", dest="llama_cpp", type=Path, help="a llama.cpp source tree")
    options = parser.parse_args()
    manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    if options.llama_cpp:
        take_templates(options.llama_cpp, manifest)
    render_all(manifest, cases)


if __name__ == "__main__":
    main()
