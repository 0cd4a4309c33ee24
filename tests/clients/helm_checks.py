"""Prints what Helm says of a chart, as JSON: `helm_checks.py CHART RELEASE VALUES`."""

from __future__ import annotations

import json
import sys
from typing import Any

from helm_python import Chart, HelmError, lint


def check(path: str, release: str, values: dict[str, Any]) -> dict[str, Any]:
    """The rendered files by name, and what the linter finds; or the error."""
    chart = Chart.load(path)
    try:
        chart.validate_schema(values)
        files = chart.render(values, name=release, namespace="default")
    except HelmError as error:
        return {"error": str(error)}
    return {"files": files, "lint": lint(path, values, strict=True)}


if __name__ == "__main__":
    path, release, values = sys.argv[1:]
    print(json.dumps(check(path, release, json.loads(values))))
