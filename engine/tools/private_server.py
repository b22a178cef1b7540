"""A server of our own for the length of one `with`: started on a free port, ended with the block."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import httpx

from engine.base.errors import ConfigError
from engine.checkpoint.locate import locate

POLL_S = 0.1
START_S = 600.0
END_S = 40.0


@contextmanager
def private_server(model_path: str | None) -> Iterator[str]:
    """Yields the URL of a ready server. Raises ConfigError with the server's own last words when it cannot start."""
    model = locate(model_path)  # Here, so that the progress of a download is seen.
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "engine", "serve", str(model), "--port", str(port)]
    print("Starting a server for this conversation (`engine serve` keeps one running) ...", file=sys.stderr)
    with TemporaryDirectory(prefix="enginewright-chat-") as folder:
        log = Path(folder) / "server.log"
        with (
            log.open("wb") as sink,
            subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL) as server,
        ):
            try:
                wait_until_ready(server, url, log)
                yield url
            finally:
                server.terminate()
                server.wait(END_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    pause = Event()
    for _ in range(round(START_S / POLL_S)):
        if server.poll() is not None:
            raise ConfigError("the server did not start: " + last_line(log))
        try:
            if httpx.get(url + "/health", timeout=START_S).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass  # Not listening yet.
        pause.wait(POLL_S)
    raise ConfigError(f"the server was not ready after {START_S:.0f} s: " + last_line(log))


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
