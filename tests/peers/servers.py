"""The servers that are compared: how each is started, asked and ended. Knows nothing of what is measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

from tests.e2e.serving import free_port
from tests.fakes.waiting import until
from tests.peers import machine
from tests.peers.load_client import Endpoint

ROOT = Path(__file__).resolve().parents[2]
READY_S = 600.0
END_S = 30.0
STREAMS = (1, 8, 32)

INHERITED = ("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "LD_PRELOAD")
"""A test environment may set these for itself; each server chooses its own."""

OFFLINE = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
CACHE_PAGES = "128"
"""Of 256 tokens: room for 32 streams several times over. Left to itself, it takes nearly all memory."""


class Server(NamedTuple):
    """One way to serve the model. `command` ends before the port; `note` tells the reader of a table what this is."""

    name: str
    note: str
    command: tuple[str, ...]
    model: str
    environ: Mapping[str, str] = {}
    takes_ids: bool = True
    extra: Mapping[str, object] = {}
    streams: tuple[int, ...] = STREAMS


class Running(NamedTuple):
    """A server that answers. ready_s: from its start to the first good answer of /health."""

    server: Server
    pid: int
    endpoint: Endpoint
    meter: machine.CpuMeter
    ready_s: float
    start_cores: machine.Cores


def ours(model: Path) -> Server:
    command = (sys.executable, "-m", "engine", "serve", str(model), "--served-model-name", "ours", "--port")
    return Server("ours", "all defaults", command, "ours", extra={"ignore_eos": True})


def vllm(peers: Path, dtype: str) -> Server:
    """Eager: its compiled mode takes minutes to start here and is slower."""
    command = (
        *(str(peers / "vllm311/bin/python"), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1"),
        *("--model", str(peers / "hf" / dtype), "--served-model-name", "vllm", "--dtype", dtype),
        *("--enforce-eager", "--max-model-len", "4096", "--port"),
    )
    environ = {
        **OFFLINE,
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB; left out, nearly all memory
        "VLLM_CPU_OMP_THREADS_BIND": core_list(machine.cores_here()),  # left out, a core stays unused
        "LD_PRELOAD": ":".join(map(str, preloads(peers))),
    }
    return Server("vLLM", f"{dtype}, eager", command, "vllm", environ, extra={"ignore_eos": True})


def transformers(peers: Path, dtype: str, *, batches: bool) -> Server:
    """It knows no ignore_eos, so the folder has no end token. Without batching it answers one request at a time."""
    folder = str(peers / "hf" / f"{dtype}-noeos")
    batching = ("--continuous-batching", "--cb-num-blocks", CACHE_PAGES) if batches else ()
    program = (str(peers / "hf311/bin/python"), str(peers / "hf311/bin/transformers"))
    flags = ("--device", "cpu", "--dtype", dtype, "--host", "127.0.0.1", "--port")
    return Server(
        "transformers, batching" if batches else "transformers",
        f"{dtype}, continuous batching" if batches else f"{dtype}, one request at a time",
        (*program, "serve", folder, *batching, *flags),
        folder,
        OFFLINE,
        takes_ids=False,
        streams=STREAMS if batches else (1,),
    )


def llamacpp(peers: Path, gguf: Path) -> Server:
    script = Path(__file__).with_name("llama_server.py")
    command = (str(peers / "xll/bin/python"), "-P", *map(str, (script, gguf, len(machine.cores_here()))))
    return Server(
        "llama.cpp",
        "Q4_1, prebuilt AVX2 server",
        command,
        "llamacpp",
        extra={"ignore_eos": True, "cache_prompt": False},
    )


def all_servers(peers: Path, gguf: Path) -> list[Server]:
    dtype = machine.peer_dtype(machine.cpu_flags())
    return [
        ours(gguf),
        vllm(peers, dtype),
        transformers(peers, dtype, batches=False),
        transformers(peers, dtype, batches=True),
        llamacpp(peers, gguf),
    ]


@contextmanager
def started(server: Server, logs: Path) -> Iterator[Running]:
    """Yields it ready on a free loopback port; whatever happens, no process of it is left."""
    port, log = free_port(), logs / f"{server.name.replace(' ', '-').replace(',', '')}.log"
    environ = {name: value for name, value in os.environ.items() if name not in INHERITED} | dict(server.environ)
    meter = machine.CpuMeter()
    before = meter.read()
    with log.open("wb") as sink:
        process = subprocess.Popen([*server.command, str(port)], stdout=sink, stderr=sink, cwd=ROOT, env=environ)
        try:
            meter.watch(process.pid)
            url = f"http://127.0.0.1:{port}"
            wait_until_ready(process, url, log)
            ready_s = time.perf_counter() - before.clock
            endpoint = Endpoint(url, server.model, server.takes_ids, server.extra)
            yield Running(server, process.pid, endpoint, meter, ready_s, meter.since(before))
        finally:
            stop(process)


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    with httpx.Client(trust_env=False, timeout=10.0) as client:
        until(lambda: is_healthy(client, url) or process.poll() is not None, READY_S)
    assert process.poll() is None, f"it ended at its start:\n{log.read_text(errors='replace')[-3000:]}"


def is_healthy(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url + "/health").status_code == 200
    except httpx.HTTPError:
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """Asks the server to end, then kills what is left of it, each process by its own id."""
    family = machine.tree(process.pid)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)
    _, alive = psutil.wait_procs(family, timeout=5)
    for each in alive:
        each.kill()


def preloads(peers: Path) -> list[Path]:
    """What vLLM's CPU build is faster with: the OpenMP of its own environment, and tcmalloc where it is installed."""
    tcmalloc = sorted(Path("/usr/lib").glob("*/libtcmalloc_minimal.so.4"))
    return [path for path in (*tcmalloc[:1], peers / "vllm311/lib/libiomp5.so") if path.exists()]


def core_list(cores: list[int]) -> str:
    """0-3 for neighbours, 0,2,5 otherwise."""
    first, last = cores[0], cores[-1]
    return f"{first}-{last}" if last - first + 1 == len(cores) else ",".join(map(str, cores))
