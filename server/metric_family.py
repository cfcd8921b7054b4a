"""One metric and its series, in the client library's values: counters, gauges, histograms.

Owns what all names begin with. Knows no engine, and what nothing means that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from radixchat.server.distribution import Distribution

PREFIX = "radixchat_"

Series = Iterable[tuple[tuple[str, ...], float]]
"""Values of labels, in the order of their names, and the number that is so labelled."""


def gauge(name: str, text: str, value: float) -> Metric:
    """A number that rises and falls."""
    return GaugeMetricFamily(PREFIX + name, text, value=float(value))


def gauges(name: str, text: str, labels: tuple[str, ...], series: Series) -> Metric:
    """Such numbers, told apart by labels."""
    family = GaugeMetricFamily(PREFIX + name, text, labels=labels)
    for values, number in sorted(series):
        family.add_metric(values, number)
    return family


def counter(name: str, text: str, value: float) -> Metric:
    """A number that only rises."""
    return CounterMetricFamily(PREFIX + name, text, value=float(value))


def counters(name: str, text: str, labels: tuple[str, ...], series: Series) -> Metric:
    """Such numbers, told apart by labels."""
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for values, number in sorted(series):
        family.add_metric(values, number)
    return family


def histogram(
    name: str,
    text: str,
    series: Iterable[tuple[tuple[str, ...], Distribution]],
    labels: tuple[str, ...] = (),
) -> Metric:
    """Distributions, told apart by labels if there are several."""
    family = HistogramMetricFamily(PREFIX + name, text, labels=labels)
    for values, seen in series:
        family.add_metric(values, seen.buckets(), seen.sum)
    return family


def labelled(numbers: Mapping[str, float]) -> list[tuple[tuple[str, ...], float]]:
    """The series of a single label."""
    return [((label,), number) for label, number in numbers.items()]
