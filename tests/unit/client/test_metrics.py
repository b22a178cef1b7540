"""Metrics under vLLM's names: what a request's tokens add, and counters that never fall."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.admit import Admitted
from engine.client.metrics import ClientMetrics, Timeline
from engine.wire.output import CoreStats, Ready, StepOutput, StepTimes
from engine.wire.request import Sampling

VLLM_NAMES = [
    "vllm:time_to_first_token_seconds_bucket",
    "vllm:inter_token_latency_seconds_bucket",
    "vllm:request_time_per_output_token_seconds_bucket",
    "vllm:e2e_request_latency_seconds_bucket",
    "vllm:request_decode_time_seconds_bucket",
    "vllm:request_prompt_tokens_bucket",
    "vllm:request_generation_tokens_bucket",
    "vllm:request_params_n_bucket",
    "vllm:request_params_max_tokens_bucket",
    "vllm:request_success_total",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
    "vllm:iteration_tokens_total_bucket",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:num_preemptions_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:admission_rejections_total",
    "vllm:corrupted_requests_total",
]


def step(epoch: int = 0, stats: CoreStats | None = None, times: StepTimes | None = None) -> StepOutput:
    return StepOutput(epoch, 1, [], [], stats or CoreStats(), times or StepTimes())


def value(metrics: ClientMetrics, name: str) -> float:
    (line,) = [line for line in metrics.render().splitlines() if line.startswith(name + "{")]
    return float(line.rsplit(" ", 1)[1])


def test_every_name_of_vllms_that_we_know_is_there_and_labelled() -> None:
    metrics = ClientMetrics("tiny")
    metrics.ready(Ready(0, 1, 64, 32, 16))
    metrics.ended(Timeline(0.0), "stop", 1, 1, 1.0)
    lines = [line for line in metrics.render().splitlines() if not line.startswith("#")]
    assert set(VLLM_NAMES) <= {line.split("{")[0] for line in lines}
    assert all('model_name="tiny",engine="0"' in line for line in lines)
    assert 'block_size="16",num_gpu_blocks="32"' in metrics.render()


def test_a_requests_times_are_split_into_first_and_later_tokens() -> None:
    metrics, timeline = ClientMetrics("tiny"), Timeline(100.0)
    metrics.submitted(Admitted(array("i", [1, 2]), (Sampling(max_tokens=9),) * 2, None))
    metrics.tokens(timeline, 1, 102.0)
    metrics.tokens(timeline, 1, 102.5)
    metrics.tokens(timeline, 2, 103.5)  # two at once: half a second each
    metrics.ended(timeline, "length", 2, 4, 103.5)
    assert (metrics.ttft.sum, metrics.ttft.count()) == (2.0, 1)
    assert (metrics.itl.sum, metrics.itl.count()) == (1.5, 3)
    assert (metrics.e2e.sum, metrics.decode.sum, metrics.tpot.sum) == (3.5, 1.5, 0.5)
    assert (metrics.prompt_lengths.sum, metrics.answer_lengths.sum) == (2, 4)
    assert (metrics.params_n.sum, metrics.params_max_tokens.sum) == (2, 9)
    assert metrics.success.values == {("length",): 1.0}


def test_tokens_that_come_with_the_first_one_are_later_tokens_at_no_distance() -> None:
    metrics, timeline = ClientMetrics("tiny"), Timeline(100.0)
    metrics.tokens(timeline, 3, 101.0)
    assert (metrics.ttft.count(), metrics.itl.count(), metrics.itl.sum) == (1, 2, 0.0)


def test_a_request_without_tokens_has_no_token_times() -> None:
    metrics = ClientMetrics("tiny")
    metrics.ended(Timeline(100.0), "error", 2, 0, 101.0)
    assert metrics.decode.count() == metrics.tpot.count() == metrics.ttft.count() == 0


def test_gauges_are_what_the_core_last_said() -> None:
    metrics = ClientMetrics("tiny")
    metrics.step(step(stats=CoreStats(running=3, waiting=2, blocks_used=8, blocks_total=32)))
    assert value(metrics, "vllm:num_requests_running") == 3 and value(metrics, "vllm:num_requests_waiting") == 2
    assert value(metrics, "vllm:kv_cache_usage_perc") == 0.25
    metrics.step(step())
    assert value(metrics, "vllm:kv_cache_usage_perc") == 0


def test_a_heartbeat_is_no_step() -> None:
    metrics = ClientMetrics("tiny")
    metrics.step(step())
    metrics.step(step(times=StepTimes(0.1, 0.5, 0.2, 7)))
    assert (metrics.step_rows.count(), metrics.step_rows.sum) == (1, 7)
    assert metrics.step_seconds.values == {("schedule",): 0.1, ("forward",): 0.5, ("sample",): 0.2}


@given(told=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 100)), max_size=30))
def test_counters_never_fall_whatever_the_core_says(told: list[tuple[int, int]]) -> None:
    """Within an epoch the core's numbers only grow; a new epoch starts at 0 again."""
    metrics, last, expected = ClientMetrics("tiny"), 0.0, 0
    highest: dict[int, int] = {}
    for epoch, number in sorted(told, key=lambda pair: pair[0]):
        metrics.step(step(epoch, CoreStats(generation_tokens=number, rejected=number)))
        now = value(metrics, "vllm:generation_tokens_total")
        assert now >= last
        last = now
        highest[epoch] = max(highest.get(epoch, 0), number)
    expected = sum(highest.values())
    assert last == expected and value(metrics, "vllm:admission_rejections_total") == expected


@pytest.mark.parametrize("name", ["ttft", "itl", "tpot", "e2e", "step_rows"])
def test_buckets_rise(name: str) -> None:
    bounds = vars(ClientMetrics("tiny"))[name].bounds
    assert list(bounds) == sorted(set(bounds))
