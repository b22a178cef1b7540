"""What a run says: medians, ratios, the bars, a Markdown table. Pure: a function of the samples and of nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from tests.peers.machine import MAX_FOREIGN_CORES
from tests.peers.measure import Round

MB = 1e6
OURS = "ours"
VLLM = ("vLLM",)
TRANSFORMERS = ("transformers", "transformers, batching")

Rounds = Mapping[str, Sequence[Round]]
"""Server -> its rounds."""


class Column(NamedTuple):
    """A measure as readers see it: value * scale, in `unit`. larger: larger is better."""

    title: str
    scale: float = 1.0
    digits: int = 1
    larger: bool = False


COLUMNS = {
    "ready": Column("ready s", digits=2),
    "ttft_128": Column("TTFT 128 ms", 1e3, 0),
    "ttft_1024": Column("TTFT 1,024 ms", 1e3, 0),
    "rate_1": Column("1 stream tok/s", larger=True),
    "decode_1": Column("decode tok/s", larger=True),
    "rate_8": Column("8 streams tok/s", larger=True),
    "rate_32": Column("32 streams tok/s", larger=True),
    "burst_ttft_32": Column("TTFT of 32 at once ms", 1e3, 0),
    "pss": Column("PSS after, MB", 1 / MB, 0),
}


class Bar(NamedTuple):
    """Ours is at least `factor` times as good as the best of `peers`."""

    measure: str
    peers: tuple[str, ...]
    factor: float

    def __str__(self) -> str:
        return f"{self.measure} at least {self.factor:g} of {self.peers[0]}"


class Limit(NamedTuple):
    """Ours is at most `most`."""

    measure: str
    most: float

    def __str__(self) -> str:
        return f"{self.measure} at most {self.most:g}"


STREAMED = ("rate_1", "rate_8", "rate_32", "ttft_128", "ttft_1024")
BARS: tuple[Bar | Limit, ...] = (
    *(Bar(measure, VLLM, 1.0 if measure == "rate_1" else 0.7) for measure in STREAMED),
    *(Bar(measure, TRANSFORMERS, 1.0) for measure in STREAMED),
    Limit("ready", 3.0),
    Limit("pss", 1000 * MB),
)


def middle(rounds: Rounds, server: str, measure: str) -> float | None:
    """The median over the rounds; None where the server was not measured so."""
    values = [each[measure].value for each in rounds.get(server, ()) if measure in each]
    return median(values) if values else None


def ratio(rounds: Rounds, measure: str, peers: Sequence[str]) -> float | None:
    """How many times as good ours is as the best of the peers: above 1, ours is faster or smaller."""
    own = middle(rounds, OURS, measure)
    theirs = [value for peer in peers if (value := middle(rounds, peer, measure)) is not None]
    if own is None or not theirs:
        return None
    return own / max(theirs) if COLUMNS[measure].larger else min(theirs) / own


def shortfall(rounds: Rounds, bar: Bar | Limit) -> str | None:
    """What falls short, in a sentence; None where the bar is met. What was not measured does not meet it."""
    if isinstance(bar, Limit):
        value = middle(rounds, OURS, bar.measure)
        return None if value is not None and value <= bar.most else f"{bar}; it is {value}"
    found = ratio(rounds, bar.measure, bar.peers)
    return None if found is not None and found >= bar.factor else f"{bar}; it is {found and round(found, 3)}"


def disturbances(rounds: Rounds) -> list[str]:
    """The numbers that were taken while other programs used the processor."""
    return [
        f"{server}, round {number + 1}, {measure}: {sample.cores.foreign:.2f} cores"
        for server, its_rounds in rounds.items()
        for number, each in enumerate(its_rounds)
        for measure, sample in each.items()
        if sample.cores.foreign > MAX_FOREIGN_CORES
    ]


def table(rounds: Rounds, notes: Mapping[str, str]) -> str:
    """Medians, ratios and bars, in Markdown."""
    head = ["", *(column.title for column in COLUMNS.values()), "foreign cores, most"]
    ratios = [("ours / vLLM", VLLM), ("ours / transformers, the better mode", TRANSFORMERS)]
    ratios += [("ours / llama.cpp", ("llama.cpp",))] if "llama.cpp" in rounds else []
    lines = [
        head,
        ["---", *["---:"] * (len(head) - 1)],
        *(server_row(rounds, server, notes.get(server, "")) for server in rounds),
        *([title, *(factor(ratio(rounds, measure, peers)) for measure in COLUMNS), ""] for title, peers in ratios),
    ]
    verdicts = [f"- {'SHORT: ' + short if (short := shortfall(rounds, bar)) else f'met: {bar}'}" for bar in BARS]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", *verdicts])


def server_row(rounds: Rounds, server: str, note: str) -> list[str]:
    cells = [number(middle(rounds, server, measure), column) for measure, column in COLUMNS.items()]
    foreign = max(sample.cores.foreign for each in rounds[server] for sample in each.values())
    return [f"{server} ({note})" if note else server, *cells, f"{foreign:.2f}"]


def number(value: float | None, column: Column) -> str:
    return "" if value is None else f"{value * column.scale:,.{column.digits}f}"


def factor(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"
