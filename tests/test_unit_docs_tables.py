"""The tables in `docs` are those of the server, and the plots those of the measurements."""

from __future__ import annotations

import pytest

from docs_plots import PLOTS, plots
from docs_tables import DOCS, TABLES, with_tables


@pytest.mark.parametrize("page", TABLES)
def test_the_tables_are_up_to_date(page: str) -> None:
    text = (DOCS / page).read_text()
    assert with_tables(page, text) == text, f"docs/{page} is not up to date: run `make tables`"


def test_the_plots_are_up_to_date() -> None:
    found = {path.name: path.read_text() for path in PLOTS.iterdir()}
    assert found == plots(), "docs/plots is not up to date: run `make tables`"
