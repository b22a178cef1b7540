"""Speed beside the peers, in one run on one machine: every server in turn, three rounds, medians."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.peers import machine
from tests.peers.layout import peers_folder, require
from tests.peers.measure import Round, one_round
from tests.peers.prompts import PromptMaker
from tests.peers.report import BARS, Bar, Limit, disturbances, shortfall, table
from tests.peers.servers import Server, all_servers, started

pytestmark = [pytest.mark.peers, pytest.mark.timeout(3 * 3600)]

Rounds = dict[str, list[Round]]


@pytest.fixture(scope="module")
def rounds(
    pytestconfig: pytest.Config, pages: list[str], default_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Rounds:
    """The whole run. Its table is printed and its numbers are written, also when a bar is missed or a server fails."""
    require(peers_folder())
    options = pytestconfig.option
    servers = chosen(all_servers(peers_folder(), default_model), options.peers_only)
    seed = random.randrange(1 << 31) if options.peers_seed is None else options.peers_seed
    found: Rounds = {server.name: [] for server in servers}
    out = pytestconfig.rootpath / options.peers_out
    with written(found, servers, seed, out, pages):
        logs = tmp_path_factory.mktemp("peers")
        with started(servers[0], logs):
            say("caches are warm: ours started once, unmeasured")
        for place in range(options.peers_rounds):
            for server in servers:
                found[server.name].append(measured(server, logs, seed + place))
    return found


def test_no_other_program_disturbed_the_run(rounds: Rounds) -> None:
    disturbed = disturbances(rounds)
    assert not disturbed, f"the run is void, repeat it on a quiet machine: {'; '.join(disturbed)}"


@pytest.mark.parametrize("bar", BARS, ids=str)
def test_the_bar_is_met(rounds: Rounds, bar: Bar | Limit) -> None:
    assert not disturbances(rounds), "the run is void: others used the processor"
    short = shortfall(rounds, bar)
    assert short is None, short


def chosen(servers: list[Server], names: str) -> list[Server]:
    return [server for server in servers if not names or server.name in names.split(";")]


def measured(server: Server, logs: Path, seed: int) -> Round:
    """One server, alone on the machine, from its start to its end."""
    maker = PromptMaker(peers_folder() / "hf/float32/tokenizer.json", seed)
    with started(server, logs) as running:
        found = asyncio.run(one_round(running, maker))
    say(server.name, *(f"{measure} {sample.value:.3g} ({sample.cores.foreign})" for measure, sample in found.items()))
    return found


@contextmanager
def written(found: Rounds, servers: list[Server], seed: int, out: Path, pages: list[str]) -> Iterator[None]:
    """Whatever was measured is kept, with what one needs to judge it."""
    load_before = os.getloadavg()
    try:
        yield
    finally:
        loads = {"before": load_before[0], "after": os.getloadavg()[0]}
        notes = {server.name: server.note for server in servers}
        kept = {name: its_rounds for name, its_rounds in found.items() if its_rounds}
        page = f"{table(kept, notes)}\n\nLoad average: {loads}. Machine: {machine.description()}. Seed: {seed}."
        pages.append(page)
        facts = {"machine": machine.description(), "load_average": loads, "seed": seed, "void": disturbances(kept)}
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**facts, "servers": record(kept, notes), "table": page}, indent=1))
        say(f"numbers: {out}")


def record(kept: Rounds, notes: dict[str, str]) -> dict[str, object]:
    """Every sample, by server, round and measure."""
    return {
        name: {
            "note": notes[name],
            "rounds": [
                {measure: {"value": sample.value, **sample.cores._asdict()} for measure, sample in each.items()}
                for each in its_rounds
            ],
        }
        for name, its_rounds in kept.items()
    }


def say(*words: str) -> None:
    """Progress, where pytest runs with -s."""
    print("peers:", *words, flush=True)
