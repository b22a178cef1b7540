"""The judge of the comparison is itself judged: on samples written by hand, without a peer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers import layout
from tests.peers.machine import Cores, CpuMeter, peer_dtype
from tests.peers.measure import Round, Sample
from tests.peers.report import BARS, Bar, disturbances, middle, ratio, shortfall, table
from tests.peers.servers import core_list

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"ready": 2.0, "pss": 5e8, "ttft_128": 0.1, "ttft_1024": 0.5, "rate_1": 50.0, "rate_8": 150.0, "rate_32": 300.0}


def round_of(foreign: float = 0.0, **changes: float) -> Round:
    return {measure: Sample(value, Cores(foreign, 1.9, 0.1)) for measure, value in {**GOOD, **changes}.items()}


def run_of(**ours: float) -> dict[str, list[Round]]:
    """Ours beside peers that are exactly GOOD, three rounds each."""
    peers = ("vLLM", "transformers, batching")
    return {"ours": [round_of(**ours)] * 3, **{peer: [round_of()] * 3 for peer in peers}}


def test_an_engine_as_good_as_its_peers_meets_every_bar() -> None:
    assert [shortfall(run_of(), bar) for bar in BARS] == [None] * len(BARS)


@pytest.mark.parametrize(
    ("measure", "value", "missed"),
    [
        ("rate_1", 49.9, 2),
        ("rate_8", 149.0, 1),
        ("rate_8", 104.0, 2),
        ("rate_32", 209.0, 2),
        ("ttft_128", 0.101, 1),
        ("ttft_128", 0.15, 2),
        ("ttft_1024", 0.72, 2),
        ("ready", 3.01, 1),
        ("pss", 1.01e9, 1),
    ],
)
def test_a_shortfall_misses_its_bars_and_no_other(measure: str, value: float, missed: int) -> None:
    found = [short for bar in BARS if (short := shortfall(run_of(**{measure: value}), bar))]
    assert len(found) == missed
    assert all(short.startswith(measure) for short in found)


def test_what_was_not_measured_meets_no_bar() -> None:
    assert all(shortfall({"ours": []}, bar) for bar in BARS)
    assert all(shortfall({"ours": [round_of()]}, bar) for bar in BARS if isinstance(bar, Bar))


def test_the_better_of_two_modes_counts() -> None:
    run = run_of() | {"transformers": [round_of(rate_1=70.0, ttft_128=0.2)]}
    assert ratio(run, "rate_1", ("transformers", "transformers, batching")) == pytest.approx(50 / 70)
    assert ratio(run, "ttft_128", ("transformers", "transformers, batching")) == pytest.approx(1.0)


def test_one_bad_round_of_three_does_not_move_the_median() -> None:
    run = {"ours": [round_of(), round_of(rate_1=1.0), round_of()]}
    assert middle(run, "ours", "rate_1") == 50.0


def test_a_round_that_others_disturbed_is_named() -> None:
    run = {"ours": [round_of(), round_of(foreign=0.21)]}
    assert len(disturbances(run)) == len(GOOD)
    assert "ours, round 2, ready: 0.21 cores" in disturbances(run)
    assert not disturbances({"ours": [round_of(foreign=0.2)]})


def test_the_table_is_square_and_says_what_falls_short() -> None:
    lines = table(run_of(rate_32=100.0), {"vLLM": "float32"}).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1
    assert any(line.startswith("| vLLM (float32) |") for line in rows)
    assert sum(line.startswith("- SHORT: rate_32") for line in lines) == 2


def test_the_script_installs_the_versions_that_are_looked_for() -> None:
    script = (ROOT / "ci/peers.sh").read_text()
    looked_for = {re.search(r"(\w+-\d[\d.]+)\.dist-info", part.proof) for part in layout.PARTS} - {None}
    assert all(f" {each[1]} " in script for each in looked_for if each)
    assert all(re.search(rf"^{part.name}\(\) {{$", script, re.MULTILINE) for part in layout.PARTS)


def test_a_missing_part_fails_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "hf311/lib/python3.11/site-packages/transformers-5.19.0.dist-info").mkdir(parents=True)
    with pytest.raises(pytest.fail.Exception, match=f"run `PEERS={tmp_path} bash ci/peers.sh vllm llamacpp folders`"):
        layout.require(tmp_path)
    layout.require(tmp_path, "transformers")


def test_another_version_is_a_missing_part(tmp_path: Path) -> None:
    (tmp_path / "hf311/lib/python3.11/site-packages/transformers-5.18.0.dist-info").mkdir(parents=True)
    assert layout.missing(tmp_path, "transformers") == ["transformers"]


@pytest.mark.parametrize(("cores", "text"), [([0, 1], "0-1"), ([3], "3-3"), ([0, 2, 5], "0,2,5")])
def test_cores_are_named_as_vllm_reads_them(cores: list[int], text: str) -> None:
    assert core_list(cores) == text


def test_peers_run_in_bfloat16_only_where_the_processor_has_units_for_it() -> None:
    assert peer_dtype(frozenset({"avx2", "avx512f"})) == "float32"
    assert peer_dtype(frozenset({"avx512_bf16"})) == peer_dtype(frozenset({"amx_bf16"})) == "bfloat16"


def test_what_an_ended_child_of_the_server_used_is_not_foreign() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print(1, flush=True); input()"
    meter = CpuMeter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as server:  # type: ignore[call-overload]  # Pipes.
        meter.watch(server.pid)
        start = meter.read()
        server.stdout.readline()
        used = meter.read().server - start.server
        server.communicate(b"\n")
    assert used > 0.4
