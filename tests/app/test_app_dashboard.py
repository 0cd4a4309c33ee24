"""The Grafana dashboard asks for metrics that a server has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from serving import post, serve_in_process
from serving.exposition import Exposition, scrape

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "deploy/grafana/llmserve.json").read_text()
)
EXPRESSIONS = {
    f"{panel['title']}, {target['legendFormat']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel.get("targets", ())
}
VARIABLES = {variable["name"]: variable["query"] for variable in DASHBOARD["templating"]["list"]}

SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
LABEL = re.compile(r'(\w+)=~"\$(\w+)"')
GROUPS = re.compile(r"by \(([^)]*)\)")
RATE = re.compile(r"rate\((\w+)\{")
GROWING = re.compile(r"\w+_(total|bucket|sum|count)")

ADDED_BY_PROMETHEUS = {"instance"}

each_expression = pytest.mark.parametrize("expression", EXPRESSIONS.values(), ids=EXPRESSIONS)


@pytest.fixture(scope="module")
def shown(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exposition]:
    with serve_in_process(tmp_path_factory.mktemp("server"), tiny_model) as running:
        call = {"model": tiny_model.stem, "prompt": "sea", "max_tokens": 2}
        assert post(running.port, "/v1/completions", call).status == 200
        assert post(running.port, "/v1/completions", b"{").status == 400
        yield scrape(running.port)


@each_expression
def test_metrics_and_labels_exist(shown: Exposition, expression: str) -> None:
    found = SELECTOR.findall(expression)
    assert found
    groups = {label for listed in GROUPS.findall(expression) for label in listed.split(", ")}
    for name, selector in found:
        assert name in shown.sample_names
        labels = dict(LABEL.findall(selector))
        assert labels
        assert labels.keys() <= VARIABLES.keys()
        for sample in shown.samples(name)[-1:]:  # the first may be that of the server, without labels
            assert labels.keys() | groups <= sample.labels.keys() | ADDED_BY_PROMETHEUS


@each_expression
def test_rates_are_of_what_only_grows(expression: str) -> None:
    names = [name for name, _ in SELECTOR.findall(expression)]
    assert RATE.findall(expression) == [name for name in names if GROWING.fullmatch(name)]


@pytest.mark.parametrize("variable", ["instance", "model"])
def test_variables_have_values(shown: Exposition, variable: str) -> None:
    match = re.match(r"label_values\((\w+).*, (\w+)\)", VARIABLES[variable])
    assert match is not None
    name, label = match.groups()
    assert label == variable
    assert label in shown.samples(name)[0].labels.keys() | ADDED_BY_PROMETHEUS


def test_panels_do_not_overlap() -> None:
    panels = DASHBOARD["panels"]
    cells = [
        (place["x"] + right, place["y"] + down)
        for place in (panel["gridPos"] for panel in panels)
        for right, down in product(range(place["w"]), range(place["h"]))
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
