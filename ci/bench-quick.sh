#!/usr/bin/env bash
# Each benchmark once, in this environment: proves that all of them run. Measures nothing that one may quote.
set -euo pipefail
cd "$(dirname "$0")/../asv_bench"
asv machine --yes --conf /dev/null >/dev/null 2>&1 || asv machine --yes >/dev/null
asv run --python=same --quick --dry-run --show-stderr
