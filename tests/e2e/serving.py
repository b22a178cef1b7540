"""A real server: `python -m engine serve` in a process group of its own, its log kept, ended with the block."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
from openai import OpenAI

from tests.fakes.waiting import until

START_S = 90.0
END_S = 45.0


class Server:
    """A running server, seen from outside."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log
        self.url = f"http://127.0.0.1:{port}"

    def openai(self) -> OpenAI:
        return OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60.0)

    def http(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60.0)

    def status(self) -> int:
        try:
            return httpx.get(self.url + "/health", timeout=15.0).status_code
        except httpx.HTTPError:
            return 0

    def process_named(self, name: str) -> psutil.Process:
        """The process of ours whose title ends so, e.g. `core[dp0]`."""
        found = [each for each in self.children() if each.cmdline()[0] == f"enginewright: {name}"]
        assert len(found) == 1, f"{name}: {[each.cmdline() for each in self.children()]}"
        return found[0]

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def metric(self, name: str) -> float:
        """The sum over the lines of a metric."""
        text = httpx.get(self.url + "/metrics", timeout=15.0).text
        lines = [line for line in text.splitlines() if line.partition("{")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def is_idle(self) -> bool:
        """Nothing runs, nothing waits, and no block is held."""
        return not any(
            self.metric(name)
            for name in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
        )


@contextmanager
def served(model: Path, folder: Path, *flags: str, is_ready: bool = True) -> Iterator[Server]:
    """Yields a ready server; whatever happens, no process of it is left."""
    port, log = free_port(), folder / f"server-{free_port()}.log"
    command = [sys.executable, "-m", "engine", "serve", str(model), "--port", str(port), *flags]
    with log.open("wb") as sink, subprocess.Popen(command, stdout=sink, stderr=sink) as process:
        server = Server(process, port, log)
        try:
            if is_ready:
                until(lambda: server.status() == 200 or process.poll() is not None, START_S)
                assert process.poll() is None, log.read_text()
            yield server
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> int:
    """SIGTERM, as an operator would; a server that does not end is killed and fails the test."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)
        raise
    finally:
        _, alive = psutil.wait_procs(family, timeout=5)
        for each in alive:
            each.kill()
        assert not alive, f"left behind: {alive}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_engine(arguments: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """`engine ARGUMENTS`, with what it printed."""
    command = [sys.executable, "-m", "engine", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]  # Options are subprocess's own.
