"""llama.cpp's own HTTP server, out of the xllamacpp wheel. Run by that environment's Python: GGUF THREADS PORT."""

from __future__ import annotations

import sys
import threading

import xllamacpp

SLOTS = 32
CONTEXT = 2048  # tokens a slot


def main(gguf: str, threads: str, port: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = gguf
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT
    params.n_batch = CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
    params.cont_batching = params.warmup = True
    server = xllamacpp.Server(params)
    print("listening at", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
