"""What a client measures of its requests, and what the core last said of itself, under vLLM's names.

Queue, prefill and inference time are not here: the core does not tell when a request was first scheduled.
"""

from __future__ import annotations

from engine.base.metrics import Counter, Registry
from engine.client.admit import Admitted
from engine.wire.output import CoreStats, Ready, StepOutput

TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
ITL_BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    20, 40, 80,
)  # fmt: skip
"""vLLM's from 0.01 up; the finer ones are for small models, and no dashboard minds more buckets."""
LATENCY_BUCKETS = (
    0.01, 0.025, 0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920,
    7680,
)  # fmt: skip
TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
STEP_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHOICE_BUCKETS = (1, 2, 5, 10, 20)


class Timeline:
    """When a sibling's tokens came. Monotonic seconds; first is 0 until one has come."""

    __slots__ = ("first", "last", "submitted")

    def __init__(self, submitted: float) -> None:
        self.submitted = submitted
        self.first = 0.0
        self.last = 0.0


class ClientMetrics:
    """One per API server. `observe` methods cost about a microsecond; `render` belongs off the event loop."""

    def __init__(self, model_name: str, engine: str = "0") -> None:
        self.registry = Registry(model_name=model_name, engine=engine)
        self.observe_requests()
        self.observe_core()

    def observe_requests(self) -> None:
        made = self.registry
        self.ttft = made.histogram("vllm:time_to_first_token_seconds", "Submission to first token.", TTFT_BUCKETS)
        self.itl = made.histogram("vllm:inter_token_latency_seconds", "Between two tokens.", ITL_BUCKETS)
        self.tpot = made.histogram(
            "vllm:request_time_per_output_token_seconds", "A request's mean time between tokens.", ITL_BUCKETS
        )
        self.e2e = made.histogram("vllm:e2e_request_latency_seconds", "Submission to last token.", LATENCY_BUCKETS)
        self.decode = made.histogram("vllm:request_decode_time_seconds", "First to last token.", LATENCY_BUCKETS)
        self.prompt_lengths = made.histogram("vllm:request_prompt_tokens", "Prompt tokens a request.", TOKEN_BUCKETS)
        self.answer_lengths = made.histogram(
            "vllm:request_generation_tokens", "Generated tokens a request.", TOKEN_BUCKETS
        )
        self.params_n = made.histogram("vllm:request_params_n", "Answers asked for.", CHOICE_BUCKETS)
        self.params_max_tokens = made.histogram(
            "vllm:request_params_max_tokens", "Longest answer allowed.", TOKEN_BUCKETS
        )
        self.success = made.counter("vllm:request_success", "Requests that ended, by reason.", ["finished_reason"])
        self.stream_faults = made.counter("enginewright:stream_faults", "Requests failed by a fault in the client.")
        self.stray_outputs = made.counter("enginewright:stray_outputs", "Outputs for requests that nobody waits for.")

    def observe_core(self) -> None:
        made = self.registry
        self.running = made.gauge("vllm:num_requests_running", "Requests in the batch.")
        self.waiting = made.gauge("vllm:num_requests_waiting", "Requests in the queue.")
        self.kv_usage = made.gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.")
        self.cache_config = made.gauge(
            "vllm:cache_config_info", "The KV cache's sizes.", ["block_size", "num_gpu_blocks"]
        )
        self.step_rows = made.histogram("vllm:iteration_tokens_total", "Query tokens in a step.", STEP_BUCKETS)
        self.step_seconds = made.counter("enginewright:step_seconds", "Seconds spent in steps, by part.", ["part"])
        self.counters = {
            "prompt_tokens": made.counter("vllm:prompt_tokens", "Prompt tokens computed."),
            "generation_tokens": made.counter("vllm:generation_tokens", "Tokens generated."),
            "preemptions": made.counter("vllm:num_preemptions", "Sequences put back into the queue."),
            "prefix_queries": made.counter("vllm:prefix_cache_queries", "Tokens looked up in the prefix cache."),
            "prefix_hits": made.counter("vllm:prefix_cache_hits", "Tokens found in the prefix cache."),
            "rejected": made.counter("vllm:admission_rejections", "Requests refused: the queue was full."),
            "corrupted": made.counter("vllm:corrupted_requests", "Requests whose logits held no number."),
        }
        self.epoch = -1
        self.seen = dict.fromkeys(self.counters, 0)

    def ready(self, ready: Ready) -> None:
        self.cache_config.set(1, str(ready.block_size), str(ready.num_blocks))

    def submitted(self, admitted: Admitted) -> None:
        self.params_n.observe(len(admitted.sampling))
        self.params_max_tokens.observe(admitted.sampling[0].max_tokens)

    def tokens(self, timeline: Timeline, count: int, now: float) -> None:
        """`count` new tokens of one sibling have come, at least one."""
        if not timeline.first:
            timeline.first = now
            self.ttft.observe(now - timeline.submitted)
            count -= 1
        if count:
            self.itl.observe((now - (timeline.last or now)) / count, count)
        timeline.last = now

    def ended(self, timeline: Timeline, reason: str, num_prompt: int, num_tokens: int, now: float) -> None:
        """One sibling. reason: stop, length, abort or error."""
        self.success.add(1, reason)
        self.prompt_lengths.observe(num_prompt)
        self.answer_lengths.observe(num_tokens)
        self.e2e.observe(now - timeline.submitted)
        if timeline.first:
            self.decode.observe(timeline.last - timeline.first)
        if num_tokens > 1:
            self.tpot.observe((timeline.last - timeline.first) / (num_tokens - 1))

    def step(self, output: StepOutput) -> None:
        stats, times = output.stats, output.times
        self.running.set(stats.running)
        self.waiting.set(stats.waiting)
        self.kv_usage.set(stats.blocks_used / stats.blocks_total if stats.blocks_total else 0.0)
        if times.rows:
            self.step_rows.observe(times.rows)
            self.step_seconds.add(times.schedule_s, "schedule")
            self.step_seconds.add(times.forward_s, "forward")
            self.step_seconds.add(times.sample_s, "sample")
        self.advance(output.epoch, stats)

    def advance(self, epoch: int, stats: CoreStats) -> None:
        """The core's counters start at 0 in each epoch; ours go on."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.seen = dict.fromkeys(self.counters, 0)
        told = counts_of(stats)
        for name, counter in self.counters.items():
            self.seen[name] = add_growth(counter, told[name], self.seen[name])

    def render(self) -> str:
        """Prometheus text."""
        return self.registry.render()


def counts_of(stats: CoreStats) -> dict[str, int]:
    return {
        "prompt_tokens": stats.prompt_tokens,
        "generation_tokens": stats.generation_tokens,
        "preemptions": stats.preemptions,
        "prefix_queries": stats.prefix_queries,
        "prefix_hits": stats.prefix_hits,
        "rejected": stats.rejected,
        "corrupted": stats.corrupted,
    }


def add_growth(counter: Counter, told: int, seen: int) -> int:
    """Adds what is new; a number that fell (a message out of turn) adds nothing. Returns the highest seen."""
    if told > seen:
        counter.add(told - seen)
    return max(told, seen)
