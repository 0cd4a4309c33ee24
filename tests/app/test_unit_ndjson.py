from __future__ import annotations

import json
import sys

from llmserve.server.web.ndjson import line


def test_no_text_breaks_a_line_however_clients_split() -> None:
    text = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1, 97), 0x2028, 0x2029]))
    made = line({"text": text}).decode()
    assert made.endswith("\n")
    (whole,) = made.splitlines()
    assert json.loads(whole) == {"text": text}
