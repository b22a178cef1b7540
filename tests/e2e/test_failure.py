"""What a server does when something dies, stops, fills up or is told to go. Tiny model: these servers start fast."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.serving import Server, run_engine
from tests.e2e.serving import served as served_with
from tests.fakes.waiting import until
from tests.oracles.tiny_serving import write_tiny_served

pytestmark = pytest.mark.xdist_group("failure")

ENDLESS = {"prompt": "a b c", "stream": True, "ignore_eos": True, "max_tokens": 2000, "temperature": 0}
SHORT = {"prompt": "a b c", "max_tokens": 4, "temperature": 0}


def served(model: Path, folder: Path, *flags: str) -> AbstractContextManager[Server]:
    """One compute thread: a tiny model gains nothing from two, and two wait for each other on a busy machine."""
    return served_with(model, folder, "--threads", "1", *flags)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_served(tmp_path_factory.mktemp("tiny"), max_position_embeddings=4096)


@pytest.fixture
def server(tiny: Path, tmp_path: Path) -> Iterator[Server]:
    with served(tiny, tmp_path, "--stall-timeout-s", "2") as running:
        yield running


def events(response: httpx.Response) -> Iterator[dict[str, object]]:
    for line in response.iter_lines():
        if line.startswith("data: ") and line != "data: [DONE]":
            yield json.loads(line[6:])


def test_HLM_01_a_killed_core_ends_every_stream_with_an_error_and_health_says_503(server: Server) -> None:
    with server.http() as client, client.stream("POST", "/v1/completions", json=ENDLESS) as response:
        stream = events(response)
        assert "choices" in next(stream)
        server.process_named("core[dp0]").kill()
        assert "error" in list(stream)[-1]
    until(lambda: server.status() == 503, 2.0)
    assert httpx.post(server.url + "/v1/completions", json=SHORT).status_code == 503
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 1


def test_HLM_01_a_stopped_core_is_noticed_and_health_recovers_with_it(server: Server) -> None:
    core = server.process_named("core[dp0]")
    core.suspend()
    until(lambda: server.status() == 503, 10.0)
    core.resume()
    until(lambda: server.status() == 200, 10.0)


def test_a_request_that_comes_while_the_model_loads_is_answered_when_it_is_there(tiny: Path, tmp_path: Path) -> None:
    with served_with(tiny, tmp_path, "--threads", "1", is_ready=False) as server:
        until(lambda: server.status() in (200, 503), 30.0)
        assert httpx.post(server.url + "/v1/completions", json=SHORT, timeout=60).status_code == 200


def test_a_core_that_dies_before_it_is_ready_ends_the_server(tiny: Path, tmp_path: Path) -> None:
    with served_with(tiny, tmp_path, "--threads", "1", is_ready=False) as server:
        until(lambda: any("core[dp0]" in each.cmdline()[0] for each in server.children() if each.cmdline()), 30.0)
        server.process_named("core[dp0]").kill()
        assert server.process.wait(20) == 1


def test_a_second_request_to_stop_waits_for_nobody(tiny: Path, tmp_path: Path) -> None:
    with (
        served(tiny, tmp_path) as server,
        server.http() as client,
        client.stream("POST", "/v1/completions", json=ENDLESS) as response,
    ):
        stream = events(response)  # Kept: to let go of it is to leave.
        next(stream)
        server.process_named("core[dp0]").suspend()  # So that the answer cannot end by itself.
        for _ in range(2):
            server.process.send_signal(signal.SIGINT)
            threading.Event().wait(0.3)
        assert server.process.wait(5) == 1


def test_a_killed_launcher_takes_everything_with_it(tiny: Path, tmp_path: Path) -> None:
    with served(tiny, tmp_path) as server:
        family = server.children()
        server.process.kill()
        _, alive = psutil.wait_procs(family, timeout=2)
        assert not alive


def test_sigterm_lets_running_answers_finish_and_exits_0(server: Server) -> None:
    body = {**ENDLESS, "max_tokens": 200}
    with server.http() as client, client.stream("POST", "/v1/completions", json=body) as response:
        stream = events(response)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        last = list(stream)[-1]
    assert last["choices"][0]["finish_reason"] == "length"  # type: ignore[index]  # JSON.
    assert server.process.wait(20) == 0


def test_sigterm_before_it_serves_exits_0_too(tiny: Path, tmp_path: Path) -> None:
    with served_with(tiny, tmp_path, is_ready=False) as server:
        until(lambda: len(server.children()) == 2, 10.0)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0, server.log.read_text()


def test_sigterm_does_not_wait_longer_than_it_was_told(tiny: Path, tmp_path: Path) -> None:
    with (
        served(tiny, tmp_path, "--shutdown-timeout-s", "0.5") as server,
        server.http() as client,
        client.stream("POST", "/v1/completions", json=ENDLESS) as response,
    ):
        stream = events(response)  # Kept: to let go of it is to leave.
        next(stream)
        server.process_named("core[dp0]").suspend()  # So that the answer cannot end by itself.
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
    assert "Traceback" not in server.log.read_text()


def test_a_taken_port_is_one_line(tiny: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run_engine(["serve", str(tiny), "--port", str(taken.getsockname()[1])])
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1 and "--port" in result.stderr


def test_a_certificate_that_cannot_be_used_is_one_line(tiny: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for file in (wrong, tmp_path / "missing.pem"):
        result = run_engine(
            ["serve", str(tiny), "--port", "0", "--ssl-certfile", str(file), "--ssl-keyfile", str(file)]
        )
        assert result.returncode == 2
        assert len(result.stderr.strip().splitlines()) == 1 and str(file) in result.stderr


def test_a_model_that_cannot_be_read_is_one_error_and_a_clean_exit(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\xff" * 100)
    result = run_engine(["serve", str(broken), "--port", "0"])
    assert result.returncode != 0
    assert "broken.gguf" in result.stderr and "Traceback" not in result.stderr


def test_a_full_queue_is_503_with_retry_after_and_the_others_are_answered(tiny: Path, tmp_path: Path) -> None:
    with served(tiny, tmp_path, "--max-num-seqs", "1", "--max-num-queued-reqs", "2") as server:
        body = {**SHORT, "max_tokens": 60, "ignore_eos": True}
        with ThreadPoolExecutor(12) as pool:
            answers = list(
                pool.map(lambda _: httpx.post(server.url + "/v1/completions", json=body, timeout=60), range(12))
            )
        statuses = [answer.status_code for answer in answers]
        refused = [answer for answer in answers if answer.status_code == 503]
        assert statuses.count(200) >= 3 and len(refused) == 12 - statuses.count(200) > 0
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        until(server.is_idle, 5.0)


def test_DIS_04_three_hundred_readers_that_leave_harm_nobody(server: Server) -> None:
    core, api = server.process_named("core[dp0]"), server.process_named("api[0]")
    files = [each.num_fds() for each in (core, api)]

    def leave(_: int) -> None:
        with server.http() as client, client.stream("POST", "/v1/completions", json=ENDLESS) as response:
            next(events(response))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(leave, range(300)))
    for _ in range(10):
        assert httpx.post(server.url + "/v1/completions", json=SHORT).status_code == 200
    until(server.is_idle, 5.0)
    until(lambda: [each.num_fds() for each in (core, api)] <= [count + 2 for count in files], 5.0)


def test_DIS_03_one_slot_is_free_again_after_a_reader_left(tiny: Path, tmp_path: Path) -> None:
    with served(tiny, tmp_path, "--max-num-seqs", "1") as server:
        with server.http() as client, client.stream("POST", "/v1/completions", json=ENDLESS) as response:
            next(events(response))
        assert httpx.post(server.url + "/v1/completions", json=SHORT, timeout=2.0).status_code == 200


def test_an_idle_server_uses_no_processor_time(server: Server) -> None:
    family = [server.process_named(name) for name in ("core[dp0]", "api[0]")]
    family.append(psutil.Process(server.process.pid))
    httpx.post(server.url + "/v1/completions", json=SHORT)
    pause = threading.Event()
    pause.wait(0.5)
    before = sum(sum(each.cpu_times()[:2]) for each in family)
    pause.wait(3.0)
    used = sum(sum(each.cpu_times()[:2]) for each in family) - before
    assert used <= 0.06  # 2 % of one processor: heartbeats and the kernel's 10 ms ticks.
