"""Plain counters, gauges and histograms in Prometheus' sense: numbers in lists, no locks, no formatting.

A registry renders the exposition text; call it off the event loop. Observing costs well under a microsecond.
Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text 0.0.4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct


class Counter:
    """A number that only grows, per tuple of label values."""

    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name, self.help_text, self.labels = name, help_text, tuple(labels)
        self.values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, amount: float = 1.0, *label_values: str) -> None:
        self.values[label_values] = self.values.get(label_values, 0.0) + amount

    def total(self) -> float:
        return sum(self.values.values())

    def samples(self) -> Iterable[Sample]:
        # A copy, made in one bytecode: rendering runs in a thread, and the loop may add a key meanwhile.
        return [Sample(self.name, self.labels, key, value) for key, value in list(self.values.items())]


class Gauge(Counter):
    """A number that is what it was last set to."""

    kind = "gauge"

    def set(self, value: float, *label_values: str) -> None:
        self.values[label_values] = value


class Histogram:
    """Counts per bucket (upper bounds, ascending), their sum, and how many."""

    kind = "histogram"

    def __init__(self, name: str, help_text: str, buckets: Sequence[float]) -> None:
        self.name, self.help_text = name, help_text
        self.bounds = tuple(buckets)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def count(self) -> int:
        return sum(self.counts)

    def samples(self) -> Iterable[Sample]:
        seen = 0
        for bound, number in zip((*map(render_number, self.bounds), "+Inf"), self.counts, strict=True):
            seen += number
            yield Sample(self.name + "_bucket", ("le",), (bound,), seen)
        yield Sample(self.name + "_sum", (), (), self.sum)
        yield Sample(self.name + "_count", (), (), seen)


class Sample(Struct, frozen=True):
    """One line of the exposition text."""

    name: str
    labels: tuple[str, ...]
    values: tuple[str, ...]
    number: float


Metric = Counter | Histogram
AnyMetric = TypeVar("AnyMetric", Counter, Gauge, Histogram)


class Registry:
    """The metrics of one process, in the order they were made; every line carries the common labels."""

    def __init__(self, **common: str) -> None:
        self.common = common
        self.metrics: list[Metric] = []

    def counter(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Counter:
        return self.keep(Counter(name, help_text, labels))

    def gauge(self, name: str, help_text: str, labels: Sequence[str] = ()) -> Gauge:
        return self.keep(Gauge(name, help_text, labels))

    def histogram(self, name: str, help_text: str, buckets: Sequence[float]) -> Histogram:
        return self.keep(Histogram(name, help_text, buckets))

    def keep(self, metric: AnyMetric) -> AnyMetric:
        self.metrics.append(metric)
        return metric

    def render(self) -> str:
        """The exposition text. Counters appear under `name_total`, as the format's newer readers expect."""
        lines: list[str] = []
        for metric in self.metrics:
            suffix = "_total" if metric.kind == "counter" else ""
            lines.append(f"# HELP {metric.name}{suffix} {metric.help_text}")
            lines.append(f"# TYPE {metric.name}{suffix} {metric.kind}")
            lines.extend(self.line(sample, suffix) for sample in metric.samples())
        return "\n".join(lines) + "\n"

    def line(self, sample: Sample, suffix: str) -> str:
        pairs = {**self.common, **dict(zip(sample.labels, sample.values, strict=True))}
        labels = ",".join(f'{key}="{escape(value)}"' for key, value in pairs.items())
        return f"{sample.name}{suffix}{{{labels}}} {render_number(sample.number)}"


def render_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
