"""What a scrape of `/metrics` says, as Prometheus' own parser reads it."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from serving.client import get

Labels = Mapping[str, str]


class Exposition:
    """The metrics by the names of their families; counters have no `_total` in theirs."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.families: dict[str, Metric] = {family.name: family for family in families}
        assert len(families) == len(self.families), "a family stands in two places"

    @property
    def sample_names(self) -> set[str]:
        return {sample.name for family in self.families.values() for sample in family.samples}

    def value(self, name: str, **labels: str) -> float:
        """The only sample with a name and exactly these labels."""
        return self._values(name)[tuple(sorted(labels.items()))]

    def first(self, name: str) -> tuple[Labels, float]:
        """The first sample of a family: routers take it for that of the server."""
        sample = self.families[name].samples[0]
        return sample.labels, sample.value

    def _values(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        samples = [
            sample for family in self.families.values() for sample in family.samples if sample.name == name
        ]
        values = {tuple(sorted(sample.labels.items())): sample.value for sample in samples}
        assert len(values) == len(samples), f"{name} has a sample twice"
        return values


def scrape(port: int) -> Exposition:
    answer = get(port, "/metrics")
    assert answer.status == 200
    return Exposition(answer.text)
