from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from engine.base.metrics import Registry


def test_a_counter_is_rendered_with_total_and_the_common_labels() -> None:
    registry = Registry(model_name="m", engine="0")
    registry.counter("vllm:request_success", "Requests that ended.", ["finished_reason"]).add(2, "stop")
    text = registry.render()
    assert 'vllm:request_success_total{model_name="m",engine="0",finished_reason="stop"} 2\n' in text
    assert "# TYPE vllm:request_success_total counter" in text


def test_a_counter_without_labels_shows_zero_from_the_start() -> None:
    registry = Registry()
    registry.counter("a", "A.")
    assert "a_total{} 0" in registry.render()


def test_label_values_are_escaped() -> None:
    registry = Registry(model_name='a"b\\c\nd')
    registry.gauge("g", "G.").set(1)
    assert 'model_name="a\\"b\\\\c\\nd"' in registry.render()


@given(st.lists(st.floats(0, 100), max_size=50))
def test_a_histogram_counts_every_value_once_in_the_first_bucket_that_holds_it(values: list[float]) -> None:
    registry = Registry()
    histogram = registry.histogram("h", "H.", [1, 5, 25])
    for value in values:
        histogram.observe(value)
    found = dict(re.findall(r'h_bucket\{le="([^"]+)"\} (\d+)', registry.render()))
    for bound in (1, 5, 25):
        assert int(found[str(bound)]) == sum(value <= bound for value in values)
    assert int(found["+Inf"]) == histogram.count() == len(values)
