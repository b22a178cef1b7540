"""The launcher: parent of the API servers and the core. Torch-free; it starts them, watches them, ends them in order.

Owns the listening socket and the private folder of the ipc sockets. Serves no request itself.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from types import FrameType

import msgspec
from msgspec import msgpack

from engine.base.config import EngineConfig, FrontendConfig
from engine.base.environ import runtime_folder
from engine.base.errors import ConfigError
from engine.base.log import EventLog
from engine.checkpoint.locate import locate
from engine.launch.api import api_main
from engine.launch.core import core_main
from engine.launch.starts import START_FAILED, ApiStart, CoreStart
from engine.process.inspect import usable_cores
from engine.process.setup import setup_process
from engine.process.spawn import Child, spawn
from engine.process.titles import Role

log = EventLog(__name__)

NUMBER_FORMAT = re.compile(r"[.\-_](I?Q\d\w*|BF16|F16|F32)$", re.IGNORECASE)
BACKLOG = 2048
END_CORE_S = 5.0
GRACE_S = 5.0
"""Seconds that an API server gets beyond its own shutdown timeout before it is killed."""


def serve(config: EngineConfig) -> int:
    """Serves until SIGTERM or SIGINT. Returns the exit code: 0 after a clean stop."""
    setup_process(Role("launcher"))
    check_tls(config.frontend)
    with listen(config.frontend) as listener:
        config = resolve_model(config)
        folder = tempfile.mkdtemp(prefix="enginewright-", dir=runtime_folder())
        try:
            return Launcher(config, listener, folder).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def check_tls(config: FrontendConfig) -> None:
    """Raises ConfigError when the certificate and its key cannot be used, in one line and before anything starts."""
    if config.ssl_certfile is None:
        return
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # A password would be asked for in a terminal that a server does not have.
        context.load_cert_chain(config.ssl_certfile, config.ssl_keyfile, password=lambda: "")
    except OSError as error:  # SSLError is one.
        files = f"--ssl-certfile {config.ssl_certfile} --ssl-keyfile {config.ssl_keyfile}"
        raise ConfigError(f"{files}: {error.strerror or error}") from error


def listen(config: FrontendConfig) -> socket.socket:
    """Bound before anything is loaded, so that a taken port is known at once. Raises ConfigError in one line."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {config.host} port {config.port}: {error.strerror}; choose another with --port"
        ) from error
    return listener


def resolve_model(config: EngineConfig) -> EngineConfig:
    """The configuration with the model's path in place of its name; fetches the default model once."""
    path = locate(config.model.model)
    names = config.model.served_model_name or names_of(path)
    model = msgspec.structs.replace(config.model, model=str(path), served_model_name=names)
    return msgspec.structs.replace(config, model=model)


def names_of(path: Path) -> tuple[str, ...]:
    """What clients call the model: its file's or folder's name, without the number format that GGUF files end in."""
    full = path.stem if path.is_file() else path.name
    short = NUMBER_FORMAT.sub("", full)
    return (short, full) if short != full else (full,)


class Launcher:
    """The children and the order in which they end."""

    def __init__(self, config: EngineConfig, listener: socket.socket, folder: str) -> None:
        self.config = config
        self.listener = listener
        self.endpoint = f"ipc://{folder}/api0"
        self.wake, self.waker = socket.socketpair()
        self.is_stopping = False
        self.core_is_lost = False
        self.children: list[Child] = []

    def run(self) -> int:
        """Until told to stop, or until nothing is left to serve."""
        self.watch_signals()
        self.core = self.start_core()
        self.api = self.start_api()
        self.children = [self.core, self.api]
        while not self.is_stopping and self.check():
            self.wake.recv(1)
        return self.stop()

    def watch_signals(self) -> None:
        """Any signal we care about, a child's end included, makes `wake` readable: waiting costs nothing."""
        self.waker.setblocking(False)
        signal.set_wakeup_fd(self.waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self.ask_to_stop)
        signal.signal(signal.SIGINT, self.ask_to_stop)
        signal.signal(signal.SIGHUP, self.ask_to_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.is_stopping:  # Asked twice: whoever still waits for an answer waits no longer.
            for child in self.children:
                child.kill()
        self.is_stopping = True

    def start_core(self) -> Child:
        threads = self.config.parallel.threads or usable_cores()
        start = CoreStart(self.config, (self.endpoint,))
        return spawn(core_main, msgpack.encode(start), Role("core", dp=0), threads=threads)

    def start_api(self) -> Child:
        start = ApiStart(self.config, 0, self.endpoint, self.listener.fileno(), self.core.pid)
        return spawn(api_main, msgpack.encode(start), Role("api", api=0), files=(self.listener.fileno(),))

    def check(self) -> bool:
        """False when serving is over. A lost core alone does not end it: /health then says 503 and why."""
        if self.api.exit_code() is not None:
            log.error("the API server is gone", exit_code=self.api.exit_code())
            return False
        code = self.core.exit_code()
        if code == START_FAILED:
            return False
        if code is not None and not self.core_is_lost:
            self.core_is_lost = True
            log.error("the engine core is gone; /health answers 503 until this server is restarted", exit_code=code)
        return True

    def stop(self) -> int:
        """API servers drain first, the core goes when nobody asks it any more."""
        self.listener.close()
        clean = self.is_stopping and not self.core_is_lost
        self.api.terminate()
        code = self.api.end(self.config.frontend.shutdown_timeout_s + GRACE_S)
        self.core.terminate()
        self.core.end(END_CORE_S)
        # An API server that our signal ended was still starting: it had nothing to drain.
        clean = clean and code in (0, -signal.SIGTERM)
        log.info("stopped", clean=clean, pid=os.getpid())
        return 0 if clean else 1
