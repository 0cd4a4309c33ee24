"""Draw the plots in `docs/plots` from `docs/performance.json` (``make tables``).

The JSON is what ``python -m benches --json`` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from toolchain import ROOT

RESULTS = ROOT / "docs" / "performance.json"
PLOTS = ROOT / "docs" / "plots"
WIDTH, LABEL_WIDTH, BAR_WIDTH = 720, 190, 420
TOP, BAR, GAP = 46, 14, 12
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.ours { fill: #3f51b5 } .peer { fill: #9aa4b2 }
@media (prefers-color-scheme: dark) { text { fill: #d7dce2 } .ours { fill: #8c9eff } .peer { fill: #6b7480 } }
"""


@dataclass(frozen=True)
class Plot:
    """A pair of bars for each of some figures of a bench."""

    title: str
    bench: str
    bars: Mapping[str, str]
    """The figures' names by the bars' labels."""


def _streams(figure: str) -> dict[str, str]:
    return {f"{count} streams": f"{count} streams: {figure}" for count in (4, 8, 16, 32)}


ALL = {
    "speed": Plot("Tokens a second (more is better)", "bursts", _streams("tokens a second")),
    "first-token": Plot("Time to first token, p95 (less is better)", "bursts", _streams("TTFT p95")),
    "gaps": Plot("Gap between tokens, p95 (less is better)", "bursts", _streams("gap p95")),
    "long-prompt": Plot(
        "Streams beside a prompt of 1,700 words (less is better)",
        "long_prompt",
        {"largest gap": "largest gap of the streams", "gap without it": "quiet gap of the streams"},
    ),
    "shared-prefix": Plot(
        "Requests that share a prefix (less is better)",
        "shared_prefix",
        {"16 requests, 95 % shared": "16 requests, 95% shared"},
    ),
    "memory": Plot(
        "Resident memory (less is better)",
        "footprint",
        {"after start": "memory after start", "after a long prompt": "memory after 1700 words"},
    ),
}


def drawn(plot: Plot, results: Mapping[str, Any]) -> str:
    """The plot as SVG."""
    figures = {figure["name"]: figure for figure in results["benches"][plot.bench]}
    rows = {label: figures[name] for label, name in plot.bars.items()}
    longest = max(max(figure["ours"], figure["peer"]) for figure in rows.values())
    height = TOP + len(rows) * (2 * BAR + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(plot.title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="16">{escape(plot.title)}</text>',
        *_key("llmserve", "ours", 0),
        *_key("llama-server", "peer", 100),
    ]
    for number, (label, figure) in enumerate(rows.items()):
        y = TOP + number * (2 * BAR + GAP)
        lines.append(f'<text x="0" y="{y + BAR + 4}">{escape(label)}</text>')
        for side, top in (("ours", y), ("peer", y + BAR)):
            width = BAR_WIDTH * figure[side] / longest
            shown = f"{float(f'{figure[side]:.3g}'):,g} {figure['unit']}"
            lines.append(
                f'<rect class="{side}" x="{LABEL_WIDTH}" y="{top}" width="{width:.1f}" height="{BAR - 1}"/>'
            )
            lines.append(f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{top + BAR - 3}">{shown}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _key(text: str, side: str, x: int) -> Iterator[str]:
    yield f'<rect class="{side}" x="{x}" y="25" width="10" height="10"/>'
    yield f'<text x="{x + 15}" y="35">{text}</text>'


def plots() -> dict[str, str]:
    """The names and texts of all plots."""
    results = json.loads(RESULTS.read_text())
    return {f"{name}.svg": drawn(plot, results) for name, plot in ALL.items()}


if __name__ == "__main__":
    PLOTS.mkdir(exist_ok=True)
    for name, text in plots().items():
        (PLOTS / name).write_text(text)
