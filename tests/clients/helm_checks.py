"""What Helm makes of the chart with some values: `helm_checks.py CHART RELEASE VALUES`, the values as JSON."""
