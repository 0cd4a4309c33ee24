"""What a scrape of `/metrics` says, as Prometheus' own parser reads it."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from serving.client import get

Labels = Mapping[str, str]

_SUFFIXES = {"gauge": ("",), "counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
"""Type of a family -> what is added to its name."""


class Exposition:
    """The metrics by the names of their families; counters have no `_total` in theirs."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.families: dict[str, Metric] = {family.name: family for family in families}
        assert len(families) == len(self.families), "a family stands in two places"

    @property
    def sample_names(self) -> set[str]:
        """The names of all samples that there can be: a family may have none yet."""
        return {
            family.name + suffix for family in self.families.values() for suffix in _SUFFIXES[family.type]
        }

    def samples(self, name: str) -> list[Sample]:
        """The samples with a name."""
        every = (sample for family in self.families.values() for sample in family.samples)
        return [sample for sample in every if sample.name == name]

    def value(self, name: str, **labels: str) -> float:
        """The only sample with a name and exactly these labels."""
        return self._values(name)[tuple(sorted(labels.items()))]

    def first(self, name: str) -> tuple[Labels, float]:
        """The first sample of a family: routers take it for that of the server."""
        sample = self.families[name].samples[0]
        return sample.labels, sample.value

    def _values(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        samples = self.samples(name)
        values = {tuple(sorted(sample.labels.items())): sample.value for sample in samples}
        assert len(values) == len(samples), f"{name} has a sample twice"
        return values


def scrape(port: int) -> Exposition:
    answer = get(port, "/metrics")
    assert answer.status == 200
    return Exposition(answer.text)
